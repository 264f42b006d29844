#!/bin/bash
# Loops that look until a file is there: the homes are asked a bounded number of times, however often the
# loops turn; and what was published or removed before a look is seen by it.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
JOB_ENV+=(DYAD_STATS=1)
rounds=200
[ -z "${DYAD_TEST_LONG:-}" ] || rounds=3000

# Four processes on two nodes poll for what a third node makes and removes.
mkdir "$WORK/sync"
job_ok 120 1@n0 "$PROGS/poll" make "$SSD" "$WORK/sync" $rounds 4 -- \
    1@n1 "$PROGS/poll" look "$SSD" "$WORK/sync" $rounds a 2 -- \
    1@n2 "$PROGS/poll" look "$SSD" "$WORK/sync" $rounds b 2
polls=$(awk '$1 == "polls" {n += $2} END {print n}' "$OUT")

# Sums of what the three ranks said of their look-ups.
look_ups() {
    sed -n "s/.*look-ups: .*$1 \([0-9]*\).*/\1/p" "$LOG" | awk '{n += $1} END {print n + 0}'
}
sent=$(look_ups sent) kept=$(look_ups kept)
say "$polls polls in $rounds rounds: $sent look-ups were sent, $kept were spared"
[ "$polls" -gt $((20 * rounds)) ] || fail "that were no loops"
# In each round three answers (nothing; the file; a tombstone), each from up to two homes for each of the two
# ranks that poll, twice where both of its processes ask at once, and again when keep_time is over; the
# maker's own look-ups beside.
[ "$sent" -le $((3 * 2 * 2 * 2 * rounds + 2 * rounds + 1000)) ] || fail "the homes were flooded"

# What people write. The loops run half a second without finding anything.
clean_ssd
job_ok 40 1@n0 bash -c 'sleep 0.5; echo x >"$0/x"; sleep 0.5; echo y >"$0/y"' "$SSD" -- \
    1@n1 bash -c 'n=0
        while [ ! -f "$0/x" ]; do n=$((n + 1)); done
        "$1" -c "import os, sys
n = 0
while not os.path.exists(sys.argv[1]): n += 1
print(\"turns\", n)" "$0/y"
        echo turns $n; [ "$(cat "$0/x" "$0/y" | tr -d "\n")" = xy ]' "$SSD" "$PYTHON"
turns=$(awk '$1 == "turns" {n += $2} END {print n}' "$OUT") sent=$(look_ups sent)
say "$turns turns of bash and python: $sent look-ups"
[ "$sent" -lt 100 ] && [ "$turns" -gt 1000 ] || fail "$turns turns cost $sent look-ups"
