#!/bin/bash
# Loops that look until a file is there: the homes are asked a bounded number of times, however often the
# loops turn; and what was published or removed before a look is seen by it.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
JOB_ENV+=(DYAD_STATS=1)
rounds=200
[ $LEVEL != soak ] || rounds=3000

# Four processes on two nodes poll for what a third node makes and removes.
mkdir "$WORK/sync"
job_ok 120 1@n0 "$PROGS/poll" make "$SSD" "$WORK/sync" $rounds 4 -- \
    1@n1 "$PROGS/poll" look "$SSD" "$WORK/sync" $rounds a 2 -- \
    1@n2 "$PROGS/poll" look "$SSD" "$WORK/sync" $rounds b 2
polls=$(awk '$1 == "polls" {n += $2} END {print n}' "$OUT")

# Sums of what the three ranks said of their look-ups.
look_ups() {
    sed -n "s/.*look-ups: [^;]*$1 \([0-9]*\).*/\1/p" "$LOG" | awk '{n += $1} END {print n + 0}'
}
sent=$(look_ups sent) kept=$(look_ups kept)
say "$polls polls in $rounds rounds: $sent look-ups were sent, $kept were spared"
[ "$polls" -gt $((20 * rounds)) ] || fail "that were no loops"
# In each round three answers (nothing; the file; a tombstone), each from up to two homes for each of the two
# ranks that poll, twice where both of its processes ask at once, and again when keep_time is over; the
# maker's own look-ups beside.
[ "$sent" -le $((3 * 2 * 2 * 2 * rounds + 2 * rounds + 1000)) ] || fail "the homes were flooded"

# Two ranks on each of the two nodes, which use each other's answers: no look may see less for it.
clean_ssd
few=$((rounds / 4))
rm -r "$WORK/sync" && mkdir "$WORK/sync"
job_ok 120 1@n0 "$PROGS/poll" make "$SSD" "$WORK/sync" $few 8 -- \
    1@n1 "$PROGS/poll" look "$SSD" "$WORK/sync" $few a 2 -- \
    1@n1 "$PROGS/poll" look "$SSD" "$WORK/sync" $few b 2 -- \
    1@n2 "$PROGS/poll" look "$SSD" "$WORK/sync" $few c 2 -- \
    1@n2 "$PROGS/poll" look "$SSD" "$WORK/sync" $few d 2
polls=$(awk '$1 == "polls" {n += $2} END {print n}' "$OUT")
sent=$(look_ups sent) kept=$(look_ups kept) shared=$(look_ups node)
say "$polls polls in $few rounds: $sent look-ups were sent, $kept spared by the rank, $shared by the node"
[ "$shared" -gt "$few" ] || fail "the ranks of a node do not use each other's answers"

# A thousand names, looked at by one rank of a node and then, a hundred at a time, by another one.
clean_ssd
rm -r "$WORK/sync" && mkdir "$WORK/sync"
cat >"$WORK/look.sh" <<'END'
# look.sh DMD SYNC MINE OTHER
until [ -e "$2/published" ]; do sleep 0.01; done
for part in {0..9}; do
    until [ -e "$2/$4.$part" ]; do sleep 0.01; done
    for i in {0..99}; do
        [ -f "$1/name.$part.$i" ] || { echo "name.$part.$i is not seen"; exit 1; }
    done
    : >"$2/$3.$part"
done
END
touch "$WORK/sync/none."{0..9}
job_ok 60 1@n0 bash -c 'for p in {0..9}; do for i in {0..99}; do echo x >"$0/name.$p.$i"; done; done
        : >"$1/published"' "$SSD" "$WORK/sync" -- \
    1@n1 bash "$WORK/look.sh" "$SSD" "$WORK/sync" a none -- \
    1@n1 bash "$WORK/look.sh" "$SSD" "$WORK/sync" b a
# What one rank did: its line of the statistics.
of_rank() {
    sed -n "s/.*rank $1[^0-9].*look-ups: [^;]*$2 \([0-9]*\).*/\1/p" "$LOG"
}
say "1000 names: rank 1 sent $(of_rank 1 sent) look-ups (it is a home of two names in three), rank 2" \
    "$(of_rank 2 sent), and found $(of_rank 2 node) at its node"
[ "$(of_rank 1 sent)" -ge 200 ] || fail "rank 1 did not ask"
[ "$(of_rank 2 node)" -ge 950 ] && [ "$(of_rank 2 sent)" -le 50 ] || fail "rank 2 asked as well"

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
