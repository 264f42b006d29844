#!/bin/bash
# Several launches that meet in a session directory: at once, one after the other, and what stands in their
# way.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/../cluster/slurm.sh"
cluster_up 3
X=$PROGS/xfer
SESSION=$WORK/session
JOB_ENV+=("DYAD_SESSION_DIR=$SESSION")

# A session of its own for each part, so that no part depends on the one before.
part() {
    say "$*"
    clean_ssd
    rm -rf "$SESSION"
}

# Who ends before the other has joined leaves nobody who could serve; so a writer waits for the reader's first
# word (of each of $2 readers).
cat >"$WORK/writer" <<'EOF'
#!/bin/bash
dmd=$1 readers=$2
shift 2
for ((i = 0; i < readers; i++)); do
    read -r word <"$dmd/hello.$i" && [ "$word" = hello ] || exit 1
done
"$@"
EOF
cat >"$WORK/reader" <<'EOF'
#!/bin/bash
dmd=$1
shift
echo hello >"$dmd/hello.$PMIX_RANK"
"$@"
EOF
chmod +x "$WORK/writer" "$WORK/reader"
W=$WORK/writer R=$WORK/reader

logged() {
    grep -q -- "$1" "$LOG"
}


part 'two launches at the same time'
launch 60 2@n0 "$W" "$SSD" 1 "$X" write -d "$SSD" -p 'sim%r' -n 50 -s 16K
launch 60 1@n1 "$R" "$SSD" bash -c '"$0" read -d "$1" -p sim0 -n 50 -s 16K && "$0" read -d "$1" -p sim1 -n 50 -s 16K' "$X" "$SSD"
launches_ok
same_sums 101 n0 n1
[ "$(stat -c %a "$SESSION")" = 700 ] || fail "the session directory is open to others: $(stat -c %a "$SESSION")"

part 'the analysis first; the simulation when nobody could go on'
launch 60 1@n1 "$X" read -d "$SSD" -n 10
until_true 20 "the reader says that it waits for what nobody could bring" logged 'only a process that is still to be started'
launch 60 1@n0 "$X" write -d "$SSD" -n 10
launches_ok
same_sums 10 n0 n1

part 'what was there before a launch joins is seen by its first look'
all_there='for i in $(seq 200); do [ -e "$0/f$i" ] || { echo "no f$i" >&2; exit 1; }; done
    names=$(ls "$0" | grep -c "^f"); [ "$names" -eq 200 ] || { echo "$names names, not 200" >&2; exit 1; }
    : >"$1/seen.$2.$PMIX_RANK"'
launch 60 1@n0 bash -c 'for i in $(seq 200); do echo $i >"$0/f$i"; done; : >"$1/written"
    until [ "$(ls "$1" | grep -c "^seen")" -eq 6 ]; do sleep 0.1; done' "$SSD" "$WORK"
until_true 30 "the files are written" test -e "$WORK/written"
launch 60 2@n1 bash -c "$all_there" "$SSD" "$WORK" alone
until_true 30 "two ranks that join at once have seen all" test -e "$WORK/seen.alone.1"
node_exec n0 env "DYAD_PATH=$SSD" timeout -k 2 20 "$BIN/dyad-dht-dump" --json --entries >"$WORK/dump.json" || fail "dyad-dht-dump: $?"
"$PYTHON" - "$WORK/dump.json" <<'PY' || fail "the dump is not right: $(head -c 2000 "$WORK/dump.json")"
import json, sys
text = open(sys.argv[1]).read()
def walk(o):
    if isinstance(o, dict):
        yield o
        for v in o.values(): yield from walk(v)
    elif isinstance(o, list):
        for v in o: yield from walk(v)
shards = [o for o in walk(json.loads(text)) if "live_ranks" in o]
assert 1 <= len(shards) <= 3, len(shards)        # of 4,096 places only those that are taken
assert all(o["nranks"] == 4096 and o["launch"] for o in shards)
names = {e["upath"] for o in walk(json.loads(text)) for e in o.get("entries", []) if isinstance(o.get("entries"), list)}
assert len([n for n in names if n.startswith("f")]) == 200, len(names)
PY
launch 60 2@n2 bash -c "$all_there" "$SSD" "$WORK" with
launch 60 2@n1 bash -c "$all_there" "$SSD" "$WORK" beside
launches_ok

part 'ranks of two launches that become other programs'
becomes='echo before >"$0/before.$1"; read -r x <"$0/before.$2" && [ "$x" = before ] || exit 1
    exec bash -c '"'"'echo after >"$0/after.$1"; read -r x <"$0/after.$2" && [ "$x" = after ]'"'"' "$0" "$1" "$2"'
launch 60 1@n0 bash -c "$becomes" "$SSD" here there
launch 60 1@n1 bash -c "$becomes" "$SSD" there here
launches_ok
# Which slots they have is chance; that each has its own again is not.
slots_of() {
    sed -n "s/.*joined as rank \\([0-9]*\\) of 4096.*incarnation $1,.*/\\1/p" "$LOG" | sort
}
first=$(slots_of 1)
[ "$(wc -l <<<"$first")" -eq 2 ] && [ "$(slots_of 2)" = "$first" ] ||
    fail "they did not come back to their places: $(slots_of 1 | tr '\n' ' ')then $(slots_of 2 | tr '\n' ' ')"

part 'names of sessions separate'
JOB_ENV+=(DYAD_KVS_NAMESPACE=other)
launch 60 1@n0 bash -c 'echo there >"$0/x"; until [ -e "$1/looked" ]; do sleep 0.1; done' "$SSD" "$WORK"
until_true 30 "the file is written" node_exec n0 test -e "$SSD/x"
unset 'JOB_ENV[-1]'
JOB_ENV+=(DYAD_KVS_NAMESPACE=mine DYAD_TIMEOUT=2)
launch 60 1@n1 bash -c 'cat "$0/x" 2>/dev/null && exit 1; : >"$1/looked"' "$SSD" "$WORK"
launches_ok
unset 'JOB_ENV[-1]' 'JOB_ENV[-1]'

part 'a member that was killed: its entry is stale, and in nobody'"'"'s way'
status=0
job 30 1@n0 bash -c 'echo lost >"$0/lost"; kill -9 $$' "$SSD" || status=$?
[ $status -ne 0 ] || fail "a killed rank gave status 0"
[ "$(find "$SESSION" -name 'live.*' | wc -l)" -eq 1 ] || fail "the killed member has no entry: $(find "$SESSION")"
begin=$SECONDS
launch 60 1@n1 "$W" "$SSD" 1 "$X" write -d "$SSD" -n 5
launch 60 1@n2 "$R" "$SSD" "$X" read -d "$SSD" -n 5
launches_ok
[ $((SECONDS - begin)) -lt 8 ] || fail "the stale entry held two launches up for $((SECONDS - begin)) s"

part 'the simulation has ended before the analysis starts on its node, and on another'
job_ok 60 2@n0 "$X" write -d "$SSD" -p 'ended%r' -n 20 -s 16K
launch 60 1@n2 bash -c 'for r in 0 1; do "$0" read -d "$1" -p ended$r -n 20 -s 16K || exit 1; done' "$X" "$SSD"
until_true 20 "the reader names the node where the files lie" logged 'files of ended launches may lie on n0'
[ -z "$(sums_on n2)" ] || fail "files came from a node on which nobody is"
launch 60 1@n0 bash -c 'for r in 0 1; do "$0" read -d "$1" -p ended$r -n 20 -s 16K || exit 1; done' "$X" "$SSD"
launches_ok
same_sums 40 n0 n2

part 'the owner of a published file ends while another waits for it, and one on its node takes it over'
launch 60 1@n0 bash -c 'echo kept >"$0/kept"; : >"$1/published"; until [ -e "$1/known" ]; do sleep 0.1; done' "$SSD" "$WORK"
until_true 20 "the file is published" test -e "$WORK/published"
# The first may leave when this one waits, which keeps the entry.
launch 60 1@n1 bash -c '[ -e "$0/kept" ] || exit 1; : >"$1/known"; read -r x <"$0/more" && [ "$x" = more ]' "$SSD" "$WORK"
until_true 20 "the second launch has joined" test -e "$WORK/known"
launch_ends 0
launch 60 1@n2 bash -c 'read -r x <"$0/kept" && [ "$x" = kept ] && echo more >"$0/more"' "$SSD"
until_true 30 "the reader says whose file it waits for" logged 'still waiting for "kept".*who published it has ended.*may lie on n0'
launch 60 1@n0 bash -c 'until [ -e "$0/more" ]; do sleep 0.2; done' "$SSD"
launches_ok

part 'one replica'
JOB_ENV+=(DYAD_REPLICAS=1)
launch 60 3@n0 "$W" "$SSD" 2 "$X" write -d "$SSD" -p 'one%r' -n 30
launch 60 2@n1,n2 "$R" "$SSD" bash -c 'for r in 0 1 2; do "$0" read -d "$1" -p one$r -n 30 || exit 1; done' "$X" "$SSD"
launches_ok
for r in 0 1 2; do
    [ "$(sums_on n1 | grep -c "one$r")" -eq 30 ] && [ "$(sums_on n2 | grep -c "one$r")" -eq 30 ] || fail "not all of one$r arrived"
done
unset 'JOB_ENV[-1]'

part 'no launcher, one node'
mkdir -m 700 "$SESSION"
alone n0 "$X" read -d "$SSD" -p alone -n 10
alone n0 "$X" write -d "$SSD" -p alone -n 10
launches_ok

part 'no launcher, two nodes; the writer waits at its exit, and its shell has ended'
mkdir -m 700 "$SESSION"
alone n1 bash -c '[ ! -e "$0/go" ] && : >"$1/here"; read -r x <"$0/go" && until [ -e "$1/orphan" ]; do sleep 0.1; done && exec "$2" read -d "$0" -p alone -n 10' "$SSD" "$WORK" "$X"
until_true 20 "the reader has joined" test -e "$WORK/here"
node_exec n0 env "${JOB_ENV[@]}" bash -c '"$1" --dmd "$2" -- bash -c "\"\$0\" write -d \"\$1\" -p alone -n 10 && echo go >\"\$1/go\"" "$3" "$2" </dev/null >"$0" 2>&1 &' \
    "$WORK/orphan.out" "$BIN/dyad-run" "$SSD" "$X"
until_true 20 "the file is there" node_exec n1 test -e "$SSD/go"
until_true 20 "the writer is nobody's child" node_exec n0 sh -c 'grep -lq "^PPid:.1$" /proc/[0-9]*/status'
: >"$WORK/orphan"
launches_ok
same_sums 11 n0 n1

part 'nine processes at a time come and go without a launcher'
mkdir -m 700 "$SESSION"
JOB_ENV+=(DYAD_LINGER=0 DYAD_TIMEOUT=20)
for n in n0 n1 n2; do # on each node there is one that stays, and takes over what they leave
    alone $n sh -c 'until [ -e "$0/all_read" ]; do sleep 0.1; done' "$WORK"
done
cat >"$WORK/guest" <<'EOF'
#!/bin/bash
# Write a file of this seat and round, read those of two seats on the other nodes.
dmd=$1 seat=$2 round=$3
echo "seat $seat round $round" >"$dmd/f.$seat.$round"
for other in $(((seat + 1) % 9)) $(((seat + 5) % 9)); do
    begin=$SECONDS
    read -r line <"$dmd/f.$other.$round" || exit 1
    [ "$line" = "seat $other round $round" ] || { echo "f.$other.$round has: $line" >&2; exit 1; }
    echo $((SECONDS - begin))
done
EOF
cat >"$WORK/seat" <<'EOF'
#!/bin/bash
for round in 1 2 3 4; do
    "$1" --dmd "$2" -- "$3/guest" "$2" "$4" $round || { echo "seat $4 round $round: $?" >&2; exit 1; }
done
EOF
chmod +x "$WORK/guest" "$WORK/seat"
SEATS=()
for seat in 0 1 2 3 4 5 6 7 8; do
    node_exec n$((seat % 3)) env "${JOB_ENV[@]}" timeout -k 2 100 "$WORK/seat" "$BIN/dyad-run" "$SSD" "$WORK" $seat \
        </dev/null >"$WORK/seat.$seat.out" 2>"$WORK/job.seat.$seat.err" &
    SEATS+=("$!")
done
for seat in "${!SEATS[@]}"; do
    wait "${SEATS[$seat]}" || fail "seat $seat ended with status $?: $(cat "$WORK/job.seat.$seat.err")"
done
: >"$WORK/all_read"
say "longest wait: $(cat "$WORK"/seat.*.out | sort -n | tail -n 1) s"
launches_ok
unset 'JOB_ENV[-1]' 'JOB_ENV[-1]'

part 'a session directory that is open to others'
mkdir -m 755 "$SESSION"
status=0
job 30 1@n0 bash -c 'echo x >"$0/x"; exit 0' "$SSD" || status=$?
grep -h "$SESSION" "$LOG" "$ERR" | grep -q 700 || fail "no word of the directory's permissions"

part 'two values of DYAD_KEY_BINS'
launch 60 1@n0 bash -c 'echo x >"$0/x"; until [ -e "$1/refused" ]; do sleep 0.1; done' "$SSD" "$WORK"
until_true 30 "the file is written" node_exec n0 test -e "$SSD/x"
START=none launch 60 1@n1 env "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD" DYAD_KEY_BINS=128 DYAD_TIMEOUT=2 \
    bash -c 'cat "$0/x" 2>/dev/null && exit 1; : >"$1/refused"' "$SSD" "$WORK"
launches_ok
logged 'of launch .* has DYAD_KEY_BINS=' || fail "nobody names the two values"

part 'srun & srun & wait'
slurm_up
JOBS=100
slurm_job 60 -N1 -n2 -w n0 "$W" "$SSD" 2 "$X" write -d "$SSD" -p 'step%r' -n 20 &
one=$!
JOBS=200
slurm_job 60 -N2 -n2 -w n1,n2 "$R" "$SSD" bash -c 'for r in 0 1; do "$0" read -d "$1" -p step$r -n 20 || exit 1; done' "$X" "$SSD" &
two=$!
wait $one || fail "the first srun ended with status $?"
wait $two || fail "the second srun ended with status $?"
for n in n1 n2; do
    [ "$(sums_on $n | grep -c step)" -eq 40 ] || fail "not all files arrived on $n"
done
