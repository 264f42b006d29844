#!/bin/bash
# A rank joins anew, as the next image of its program, and ends at once, while the launcher is slow: so what PMIx was asked on
# its behalf is answered by the other node's server only then. The job ends all the same, as a member does not leave before.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
MPIRUN_ARGS=()
cluster_up 2
nobody_of_job_on() { ! strays "$1" | grep -qv '^[0-9]* orted '; }
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_LINGER=0 DYAD_LOG=debug)

job_begin 40 \
    1@n0 bash -c "$RANK"'echo a >"$SSD/a"; echo b >"$SSD/b"; wait_for go.end' -- \
    1@n1 bash -c "$RANK"'cat "$SSD/a"; made began; wait_for go.exec; exec cat "$SSD/b"'
until_true 20 "the ranks have met" test -e "$WORK/began"
launcher=$(mpirun_pids)
node_exec head kill -STOP "$launcher"
: >"$WORK/go.exec"
until_true 20 "the next image has come to its end" sh -c '[ "$(grep -c "rank 1[] ].*statistics" "$1")" = 2 ]' _ "$LOG"
until_true 20 "its member waits for answers" grep -q 'rank 1[] ].*waits for answers' "$LOG"
node_exec head kill -CONT "$launcher"
until_true 20 "it has ended" nobody_of_job_on n1
: >"$WORK/go.end"
job_end_ok 40
grep -q 'waited .* ms for answers' "$LOG" || fail "nothing was waited for"
