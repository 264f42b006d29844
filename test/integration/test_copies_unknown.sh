#!/bin/bash
# Copies of which nobody knows any more, because their owner and all homes were killed: they are all that is left, and can be
# read on their node; when that is sure no copy holds the leases up (unit/dht/lease).
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 4
FILES=60
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3 DYAD_LOG=debug)

# The ranks that are killed are one process each: what a shell leaves behind would be its rank's next member.
cat >"$WORK/killed.py" <<'END'
import os, signal, sys
work, ssd, rank = os.environ["W"], os.environ["SSD"], os.environ["PMIX_RANK"]
for name in ["f.%d" % i for i in range(int(sys.argv[1]))] if rank == "0" else ["other"]:
    with open(os.path.join(ssd, name), "w") as f:
        f.write("old\n")
with open(os.path.join(work, "pid.new." + rank), "w") as f:
    f.write("%d\n" % os.getpid())
os.rename(os.path.join(work, "pid.new." + rank), os.path.join(work, "pid." + rank))
signal.pause()
END

rm -f "$WORK"/ok.*
job_begin 60 2@n0,n1 "$PYTHON" "$WORK/killed.py" $FILES -- \
    1@n2 bash -c "$RANK"'wait_for flag.end; made ok.2' -- \
    1@n3 bash -c "$RANK"'
    wait_for pid.0
    for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; done
    made flag.copied
    wait_for flag.unknown
    for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; [ "$x" = old ]; done
    made flag.read
    wait_for flag.sure
    for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; [ "$x" = old ]; done
    made flag.end; made ok.3'
until_true 30 "rank 3 has its copies" test -e "$WORK/flag.copied"
until_true 10 "rank 1 is there, too" test -e "$WORK/pid.1"
for rank in 0 1; do "$CLUSTER_SH" exec n$rank kill -9 "$(<"$WORK/pid.$rank")"; done
knows() { [ "$(grep -c "rank 3\].* is gone: nobody listens" "$LOG")" -ge 2 ] && grep -q "rank 3\].*copies are compared" "$LOG"; }
until_true 30 "rank 3 knows that both are dead" knows
: >"$WORK/flag.unknown"
until_true 30 "rank 3 has read them" test -e "$WORK/flag.read"
settled() {
    grep -q 'rank 3\].*the copy on this node stays' "$LOG" &&
        [[ $(grep 'rank 3\].*\(copies are compared\|have been compared\)' "$LOG" | tail -n 1) = *'have been compared' ]]
}
until_true 40 "no copy of rank 3 is looked at any more" settled
: >"$WORK/flag.sure"
job_over 60 2 3
