#!/bin/bash
# A file lies on a node, and any rank there serves it: while the one that published it is stopped, and when it is dead and
# nobody can take over what it has left.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 2
export X=$PROGS/xfer
# Chunks that are smaller than the large file. So long an open waits for an owner that may come back; less than a test does.
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" "LOG=$LOG" DYAD_CHUNK_SIZE=64K DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=4)
# The journal of rank 0 is held by somebody who is none of the session: nobody can take it over.
HOLD='import fcntl, glob, os, struct, time
with open(glob.glob(os.environ["SSD"] + "/.dyad/owner/*.0")[0], "r+b") as journal:
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(journal, 38, lock) # F_OFD_SETLKW: when its member is dead
    open(os.environ["W"] + "/flag.held", "w").close()
    while not os.path.exists(os.environ["W"] + "/flag.over"):
        time.sleep(0.02)
'
PUBLISH='"$X" write -d "$SSD" -p a -n 3 -s 5000; "$X" write -d "$SSD" -p large -s 2M; echo $$ >"$W/pid.0.new"; mv "$W/pid.0.new" "$W/pid.0"; '
READ='"$X" read -d "$SSD" -p a -n 3 -s 5000; "$X" read -d "$SSD" -p large -s 2M
    ! grep "this one serves" "$LOG" || exit 1; made ok.read; made flag.over'

# Stopped, and going on only when it was read. Nobody has taken anything over by then.
job_killed 40 read \
    1@n0 bash -c "$RANK$PUBLISH"'kill -STOP $$; wait_for flag.over' -- \
    1@n0 bash -c "$RANK"'wait_for pid.0; until grep -q "^State:.T" "/proc/$(<"$W/pid.0")/status"; do sleep 0.02; done
        made flag.stopped; wait_for flag.over; kill -CONT "$(<"$W/pid.0")"' -- \
    1@n1 bash -c "$RANK"'wait_for flag.stopped; '"$READ"
same_sums 4 n0 n1
rm -f "$WORK"/{flag,pid,ok}.*
clean_ssd

# Dead. (No child of it is there that could take its place.) Its neighbour is stopped until the journal is held.
mkfifo "$WORK/pipe"
KILL='kill -STOP $2; python3 -c "$HOLD" & kill -KILL "$(<"$W/pid.0")"; until [ -e "$W/flag.held" ]; do sleep 0.02; done
    kill -CONT $2; : >"$W/flag.killed"; wait'
job_killed 40 read \
    1@n0 bash -c "$RANK$PUBLISH"'read -r _ <>"$W/pipe"' -- \
    1@n0 env "HOLD=$HOLD" "KILL=$KILL" bash -c "$RANK"'wait_for pid.0; env -u LD_PRELOAD bash -c "$KILL" - to $$ & wait_for flag.over; wait' -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; '"$READ"
same_sums 4 n0 n1
