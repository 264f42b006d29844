#!/bin/bash
# Every way in which bash, dash and busybox sh write a file: complete for a reader on the other node, never empty, never
# in part, whether it asks before the writer or after. 10 runs each; 500 with --soak.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun bash dash busybox cmp
HERE=$SOURCE_DIR/test/integration/progs
export CASES=$HERE/shell_cases.sh
runs=10
[ $LEVEL != soak ] || runs=500

seq -f 'line %g of the first' 1 900 >"$WORK/A"
seq -f 'and line %g of the second' 1 900 >"$WORK/B"

# What each case writes, said by the same shell in a plain directory.
mkdir "$WORK/expected"
A=$WORK/A B=$WORK/B bash -c '. "$CASES"; . "${CASES%.sh}.bash"; for case in $(names); do c_$case "$0/$case"; done; wait' \
    "$WORK/expected" 2>/dev/null
count=$(find "$WORK/expected" -type f | wc -l)
[ "$count" -ge 40 ] || fail "only $count cases"

job=()
for shell in bash dash busybox; do
    mkfifo "$WORK/to_producer.$shell" "$WORK/to_consumer.$shell"
    command=$shell
    [ $shell != busybox ] || command="busybox sh"
    for role in produce consume; do
        node=n0
        [ $role = produce ] || node=n1
        # shellcheck disable=SC2206
        job+=(-- 1@$node $command "$HERE/shell_rank.sh" $role $shell $runs "$WORK")
    done
done
JOB_ENV+=("CASES=$CASES" DYAD_TIMEOUT=60 DYAD_LOG=warn)
seconds=300 # against what hangs
[ $LEVEL != soak ] || seconds=2400
local_job_ok $seconds "${job[@]:1}" || exit 1
for shell in bash dash busybox; do
    here=$(find "$(dmd_of n1)" -name "$shell.*.[0-9]*" | wc -l)
    [ "$here" -ge $((80 * runs)) ] || fail "$shell: only $here files reached the consumer"
done
say "$count cases, $runs runs ahead and $runs after, three shells"
