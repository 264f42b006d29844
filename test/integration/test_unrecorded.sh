#!/bin/bash
# What was published while the journal of its rank could not be written (a limit on file sizes here, a full disk elsewhere):
# it is recorded as soon as that can be, and if the rank is killed before that another of its node finds the file all the same.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 3
JOB_ENV+=(DYAD_INLINE_MAX=0) # small files, too, are where their owner is
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=3)
# So much that the journal cannot grow by a byte under the limit. (The log can: it is smaller.)
RANK+='trap "" XFSZ
die() { ulimit -c 0; made flag.killed; kill -KILL $$; }
publish() { local i; for i in $(seq 100); do echo x >"$SSD/filler.$PMIX_RANK.$i"; done; }
limit() { ulimit -S -f 8; }
reads() { [ "$(cat "$SSD/$1")" = "$2" ] || { echo "$1 is not $2" >&2; exit 1; }; }
'
IDLE=$RANK'wait_for flag.over'

begin_case() {
    rm -f "$WORK"/flag.*
    clean_ssd
}

unrecorded() {
    grep -q "\"$1\" is published, but this node's record of it could not be written" "$LOG" || fail "$1 was recorded"
}

# Its record can be written again: that is done, though nothing else is published.
begin_case
job_killed 40 "recorded read" \
    1@n0 bash -c "$RANK"'publish; limit; echo one >"$SSD/late"; ulimit -S -f unlimited
        until grep -qa late "$SSD"/.dyad/owner/*; do sleep 0.05; done; made ok.recorded; die' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; reads late one; made ok.read; made flag.over'
unrecorded late

# Nor could it be recorded that a file is none any more.
begin_case
job_killed 40 "recorded" \
    1@n0 bash -c "$RANK"'publish; size() { cat "$SSD"/.dyad/owner/* | wc -c; }
        limit; before=$(size); rm "$SSD/filler.$PMIX_RANK.1"; [ "$(size)" = "$before" ] || exit 1; ulimit -S -f unlimited
        until [ "$(size)" -gt "$before" ]; do sleep 0.05; done; made ok.recorded; made flag.over; die' -- \
    1@n1 bash -c "$IDLE"
grep -q "cannot record filler.0.1 in journal" "$LOG" || fail "the removal was recorded"

# It cannot, until the rank is dead. The journal knows an older version of what was rewritten, a copy under that name,
# or nothing; or it is not what is published any more. And who takes it over cannot write a journal either.
for heir in true "publish; limit"; do
    begin_case
    job_killed 60 "read new" \
        1@n0 bash -c "$RANK"'publish; echo one >"$SSD/f"; reads copy one; mkdir "$SSD/sub"; limit
            echo two >"$SSD/f"; echo two >"$SSD/copy"; echo two >"$SSD/new"; echo two >"$SSD/sub/new"; echo two >"$SSD/newer"; made flag.written
            wait_for flag.newer; wait_for flag.heir; die' -- \
        1@n0 bash -c "$RANK$heir; made flag.heir; wait_for flag.over" -- \
        1@n1 bash -c "$RANK"'echo one >"$SSD/copy"; wait_for flag.killed; for f in f copy new sub/new; do reads "$f" two; done; reads newer three
            made ok.read; wait_for flag.over' -- \
        1@n2 bash -c "$RANK"'wait_for flag.written; reads newer two; echo three >"$SSD/newer"; made flag.newer
            wait_for ok.read; for f in f copy new sub/new; do reads "$f" two; done; made ok.new; made flag.over'
    for f in f copy new sub/new newer; do
        unrecorded "$f"
    done
done

# The same, but what lies there is not what was published last: whoever wrote to it was killed in the midst of that.
begin_case
job_killed 60 "read" \
    1@n0 bash -c "$RANK"'publish; limit; echo two >"$SSD/whole"; echo two >"$SSD/half"
        exec 3>>"$SSD/half"; printf three >&3; die' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; reads whole two; ! cat "$SSD/half" || exit 1; made ok.read; made flag.over'

# Another node publishes it anew, or removes it, before anybody on the dead rank's node has looked for it: what lies there is
# not read any more.
begin_case
job_killed 60 "near" \
    1@n0 bash -c "$RANK"'publish; limit; echo one >"$SSD/again"; echo one >"$SSD/gone"; die' -- \
    1@n0 bash -c "$RANK"'wait_for flag.again; reads again two; [ ! -e "$SSD/gone" ] || exit 1; made ok.near; made flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; echo two >"$SSD/again"; rm "$SSD/gone"; made flag.again; wait_for flag.over'
for f in again gone; do
    unrecorded "$f"
done
