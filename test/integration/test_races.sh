#!/bin/bash
# Waits that must end: an opener that died in its open, a writer that changes nothing, writers that open at
# once, a write after the end.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2

# A process was killed between the mark and the open; the file is what it was.
job_ok 40 1@n0 bash -c 'echo whole >"$0/marked"; LD_PRELOAD= "$1" "$0" marked && [ "$(cat "$0/marked")" = whole ]' \
    "$SSD" "$PROGS/leave_mark" -- 1@n1 true

# The owner has the file open for writing while another node asks for it, and closes it unchanged.
job_ok 60 1@n0 bash -c '
    echo same >"$0/held"
    sleep 0.2 # a file that was written just before the open counts as written
    exec 3<>"$0/held"
    echo >"$0/go"
    for seen in 1 2 3; do
        until "$1/dyad-dht-dump" --waiting 2>&1 | grep -q held; do sleep 0.1; done
        sleep 0.2
    done
    exec 3>&-' "$SSD" "$BIN" -- \
    1@n1 bash -c 'cat "$0/go" && [ "$(cat "$0/held")" = same ]' "$SSD"

# A writer asks for a file (the answer comes when the rank has joined), meanwhile another makes it: neither
# waits for the other.
job_ok 40 1@n0 bash -c '
    (exec 3<>"$0/both" && : >"$1/both.open") &
    sleep 0.02
    exec 4>"$0/both"
    until [ -e "$1/both.open" ]; do sleep 0.1; done
    exec 4>&-
    wait' "$SSD" "$WORK" -- 1@n1 true

# What is written after the member has left stays local, and ends.
job_ok 40 1@n0 "$PROGS/late_write" "$SSD/late" -- 1@n1 true
grep -q 'late_write is over' "$ERR" || fail "the process did not get to its end"
