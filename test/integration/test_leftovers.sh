#!/bin/bash
# What a program must not notice: its descriptors, its working directory, what it closes; and what a job
# must not leave, also when ranks fail.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
F=$PROGS/fds

# A rank that is a member, and a child of it that is a guest, have the descriptors they would have had,
# all below 256.
clean() {
    # A number and what it is, without what differs from run to run.
    awk '$1 < 256' "$1" | sed -E 's/with(out)?//; s/\[[0-9]+\]//; s/[0-9]+$//; s/^([0-9]+) pipe:.*/\1 pipe/' | sort -n
}
mkdir "$WORK/with" "$WORK/without"
START=none job_ok 30 1@n0 sh -c '"$0" list >"$1/guest"; exec "$0" list >"$1/member"' "$F" "$WORK/without"
job_ok 30 1@n0 sh -c '"$0" list >"$1/guest"; echo x >"$2/x"; exec "$0" list >"$1/member"' "$F" "$WORK/with" "$SSD"
for kind in guest member; do
    diff <(clean "$WORK/without/$kind") <(clean "$WORK/with/$kind") || fail "a $kind has other descriptors"
done
[ "$(wc -l <"$WORK/with/guest")" = "$(wc -l <"$WORK/without/guest")" ] ||
    fail "a guest has descriptors of ours: $(cat "$WORK/with/guest")"

# The engine starts beside the program, and takes no number that the program counts on.
job_ok 30 6@n0,n1 "$F" lowest "$SSD/lowest"
[ "$(grep -c 'always the lowest' "$OUT")" -eq 6 ] || fail "the engine took a descriptor of the program's"

# A program that closes all from 3 on, and goes on.
job_ok 30 1@n0 "$F" closefrom "$SSD/first" -- 1@n1 sh -c 'echo other >"$0/first.other"; cat "$0/first" >/dev/null' "$SSD"
grep -q 'closefrom survived' "$OUT" || fail "closefrom"

# Ranks that fail, and one that is killed: nothing is left.
status=0
job 30 1@n0 sh -c 'echo x >"$0/x"; exit 3' "$SSD" -- 1@n1 cat "$SSD/x" || status=$?
[ $status -eq 3 ] || fail "a rank's status 3 became $status"
nothing_left
status=0
job 30 1@n0 sh -c 'cat "$0/y"; kill -9 $$' "$SSD" -- 1@n1 sh -c 'echo y >"$0/y"; cat "$0/never" || true' "$SSD" || status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] && [ $status -ne 137 ] || [ $status -eq 137 ] || fail "a killed rank gave status $status"
nothing_left

# A consumer killed in its fetch leaves no partial file under the final name.
clean_ssd
status=0
job 60 1@n0 "$PROGS/xfer" write -d "$SSD" -p cut -s 512M -- \
    1@n1 bash -c 'cat "$0/cut.000000" >/dev/null & child=$!; until [ -n "$(ls -A "$0/.dyad/tmp" 2>/dev/null)" ] || [ -e "$0/cut.000000" ]; do :; done; kill -9 $child; kill -9 $$' "$SSD" || status=$?
nobody_on n0 && nobody_on n1 || until_true 5 "the ranks are gone" nobody_on n1
size=$(node_exec n1 stat -c %s "$SSD/cut.000000" 2>/dev/null || echo none)
[ "$size" = none ] || [ "$size" = $((512 << 20)) ] || fail "a partial file of $size bytes"
