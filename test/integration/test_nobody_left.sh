#!/bin/bash
# A file that nobody will write: ENOENT and a message once the job is quiescent, ETIMEDOUT under
# DYAD_TIMEOUT, and a word to whoever waits for long.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
X=$PROGS/xfer
ENOENT=2 ETIMEDOUT=110

# One rank waits, the other is at exit.
begin=$SECONDS
job_ok 40 1@n0 true -- 1@n1 "$X" read -d "$SSD" -p missing -E $ENOENT
say "ENOENT after $((SECONDS - begin)) s"
grep -q 'missing\.000000' "$LOG" "$ERR" || fail "no message names the file"

# All ranks wait, each for what another would have written after.
: >"$LOG"
job_ok 40 4@n0,n1 "$X" read -d "$SSD" -p 'missing%r' -E $ENOENT

# A child waits and its shell waits for the child.
job_ok 40 2@n0,n1 sh -c '"$0" read -d "$1" -p gone -E 2; exit $?' "$X" "$SSD"

# Not so if somebody is still at work.
begin=$SECONDS
JOB_ENV+=(DYAD_TIMEOUT=2)
job_ok 40 1@n0 sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$WORK/over" -- \
    1@n1 sh -c '"$0" read -d "$1" -p late -E "$2"; status=$?; : >"$3"; exit $status' "$X" "$SSD" $ETIMEDOUT "$WORK/over"
took=$((SECONDS - begin))
[ $took -ge 2 ] && [ $took -lt 15 ] || fail "DYAD_TIMEOUT=2 ended the wait after $took s"
unset 'JOB_ENV[-1]'

# Who waits longer than 10 s says so, and still gets the file.
: >"$LOG"
job_ok 60 1@n0 sh -c 'sleep 13; exec "$0" write -d "$1" -p slow' "$X" "$SSD" -- 1@n1 "$X" read -d "$SSD" -p slow
grep -i 'still waiting' "$LOG" "$ERR" | grep -q 'slow\.000000' || fail "no word of waiting within 13 s"
same_sums 1 n0 n1

# --- which wait ends ---

# Each rank looks for something that it can do without, writes what the other one waits for, and waits for what that one
# writes: the first wait of each ends and no other. With `turn` rank 1 waits for rank 0 before that.
cat >"$WORK/exchange" <<'EOT'
cd "$DYAD_PATH" || exit 1
mine=$(echo "$1" | cut -d, -f$((PMIX_RANK + 1))) # optional
my=$(echo "$2" | cut -d, -f$((PMIX_RANK + 1))) other=$(echo "$2" | cut -d, -f$((2 - PMIX_RANK)))
[ "$PMIX_RANK$3" != 1turn ] || read -r x <"$other" || exit 1
! read -r x 2>/dev/null <"$mine" || exit 1
echo "from $PMIX_RANK" >"$my" || exit 1
read -r x <"$other" && [ "$x" = "from $((1 - PMIX_RANK))" ]
EOT
exchange() { # OPTIONAL,OPTIONAL WRITTEN,WRITTEN [turn]: names of rank 0 and of rank 1
    : >"$LOG"
    local_job_ok 40 1@m0 bash "$WORK/exchange" "$1" "$2" "${3:-}" -- 1@m1 bash "$WORK/exchange" "$1" "$2" "${3:-}"
    for name in ${1//,/ }; do
        grep -q "\"$name\": nobody is left" "$LOG" || fail "no line for $name"
    done
    [ "$(grep -c 'nobody is left' "$LOG")" -eq 2 ] || fail "more waits ended: $(grep 'nobody is left' "$LOG")"
}
JOB_ENV+=(DYAD_WAIT=all)
exchange a0/.ncrc,a1/.ncrc left.a,right.a turn # they look like probes
unset 'JOB_ENV[-1]'
exchange maybe,perhaps b.0,b.1      # who waits for b.1 has written b.0, so it could come
exchange opt.0,opt.1 left.c,right.c # opt.1 is like opt.0, and that was not needed

# Somebody has waited for long for what is written by who looks for something else first: the later wait ends.
cat >"$WORK/producer" <<'EOT'
cd "$DYAD_PATH" || exit 1
until "$DUMP" --waiting | grep -q the.data; do sleep 0.1; done
for name in first second third; do
    ! read -r x 2>/dev/null <"$name" || exit 1
done
echo data >the.data
EOT
JOB_ENV+=("DUMP=$BIN/dyad-dht-dump")
local_job_ok 40 1@m2 bash "$WORK/producer" -- 1@m3 bash -c 'read -r x <"$DYAD_PATH/the.data" && [ "$x" = data ]'
unset 'JOB_ENV[-1]'

# Names that nobody writes, one after the other: not a line for each, and all are counted.
: >"$LOG"
local_job_ok 100 1@m4 bash -c 'for ((i = 0; i < 200; i++)); do ! read -r x 2>/dev/null <"$DYAD_PATH/none.$i" || exit 1; done' -- \
    1@m5 bash -c '! read -r x 2>/dev/null <"$DYAD_PATH/other"'
lines=$(grep -c '": nobody is left' "$LOG") more=$(sed -n 's/.*could publish \([0-9]*\) more files.*/\1/p' "$LOG" | awk '{n += $1} END {print n + 0}')
[ $((lines + more)) -eq 201 ] && [ "$lines" -lt 100 ] || fail "$lines lines, and $more more files: not 201 names in few lines"
