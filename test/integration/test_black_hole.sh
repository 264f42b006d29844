#!/bin/bash
# A path that loses large packets without a word, and no small ones (a link with a smaller MTU in the midst): the ranks hear
# each other, and no bytes come. An open of what would need them ends within a bound; small files and all else work; and
# when the path is mended it is as before.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 2
X=$PROGS/xfer
EHOSTUNREACH=113
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)
# mtu N: of the bridge's end of n1's cable. Segments of one packet each, so that none is cut up on the way.
mtu() {
    node_exec head ip link set v1 mtu "$1"
}
for node in n0 n1; do
    node_exec $node ip link set eth0 gso_max_segs 1 2>"$WORK/ip.err" || skip "needs an ip that sets gso_max_segs: $(cat "$WORK/ip.err")"
done

job_begin 100 1@n0 bash -c "$RANK"'
    wait_for flag.written
    "$X" read -d "$SSD" -p whole -s 4M
    made flag.read
    wait_for flag.hole
    timed large "$X" read -d "$SSD" -p large -s 4M -E '$EHOSTUNREACH'
    timed small "$X" read -d "$SSD" -p small -s 100
    timed write "$X" write -d "$SSD" -p back -s 100
    made flag.done
    wait_for flag.mended
    timed mended "$X" read -d "$SSD" -p large -s 4M
    made flag.end; exit' -- \
    1@n1 bash -c "$RANK"'
    "$X" write -d "$SSD" -p whole -s 4M; "$X" write -d "$SSD" -p large -s 4M; "$X" write -d "$SSD" -p small -s 100
    made flag.written
    wait_for flag.done
    timed far "$X" read -d "$SSD" -p back -s 100
    wait_for flag.end; exit'
until_true 30 "the ranks are connected, and bytes come" test -e "$WORK/flag.read"
mtu 600
: >"$WORK/flag.hole"
until_true 60 "the open ends" test -e "$WORK/flag.done"
until_true 10 "the other way" test -e "$WORK/took.far.1"
mtu 1500
: >"$WORK/flag.mended"
job_end_ok 100
# The rank comes back each time, and is believed five times (consume.c): 2 P each, and J.
took large 15
took small 5
took write 5
took far 5
took mended 8
grep -q '"large.000000" cannot be fetched: its owner, rank 1 on node n1' "$LOG" || fail "no word of file, owner and node"
! grep -q 'nobody has published it' "$LOG" || fail "what is published is said not to be"
