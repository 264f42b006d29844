#!/bin/bash
# Where UCX listens: on loopback if all ranks are on one node, on the devices that DYAD_NET_DEVICES names, else on all, and a
# public address is warned of.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
case $SANITIZE in ?*) skip "UCX is shared with the program, or its port is open, in this build" ;; esac
need ss
cluster_up 2
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=30)
BASE=("${JOB_ENV[@]}")
exchange='other=$((PMIX_RANK == 0)) && echo "of $PMIX_RANK" >"$SSD/f.$PMIX_RANK" && read -r line <"$SSD/f.$other" &&
    [ "$line" = "of $other" ] && : >"$W/there.$PMIX_RANK" && until [ -e "$W/go" ]; do sleep 0.05; done'

# begin WHAT [VARIABLE=VALUE...]: what follows is a part of its own.
begin() {
    say "$1"
    shift
    JOB_ENV=("${BASE[@]}" "$@")
    rm -f "$WORK"/there.* "$WORK/go"
    clean_ssd
    : >"$LOG"
}

# addresses NODE: those on which members listen. They are in descriptor tables that ss does not look at, unlike the launcher's.
addresses() {
    node_exec "$1" ss -H -ltnp | sed -n '/users:/!s/^[^ ]* *[0-9]* *[0-9]* *\([^ ]*\):[0-9]* .*/\1/p' | sort -u | tr '\n' ' '
}

# listens NODE ADDRESS...: on those, and no other. job 2@NODE...: two ranks exchange files meanwhile.
listens() {
    local node=$1 found
    shift
    found=$(addresses "$node")
    [ "$found" = "$(printf '%s ' "$@")" ] || fail "on $node members listen on $found, not on $*"
}

there() {
    job_begin 60 "$1" sh -c "$exchange"
    until_true 30 "both ranks have the other's file" test -e "$WORK/there.0" -a -e "$WORK/there.1"
}

over() {
    : >"$WORK/go"
    job_wait || fail "the job ends with $?: $(cat "$ERR")"
}

warnings() {
    grep -c "UCX listens on the public address 203.0.113.7 of pub0" "$LOG" || true
}

begin 'one node'
there 2@n0
listens n0 127.0.0.1
over

begin 'two nodes'
there 2@n0,n1
listens n0 10.77.0.10 127.0.0.1
listens n1 10.77.0.11 127.0.0.1
over

begin 'one node, and a session directory, which others may come to' "DYAD_SESSION_DIR=$WORK/session"
there 2@n0
listens n0 10.77.0.10 127.0.0.1
over

begin 'chosen' DYAD_NET_DEVICES=eth0
there 2@n0
listens n0 10.77.0.10
over

begin "chosen by UCX's own variable" UCX_NET_DEVICES=eth0
there 2@n0
listens n0 10.77.0.10
over

begin "chosen, where UCX's own variable says otherwise" UCX_NET_DEVICES=lo DYAD_NET_DEVICES=eth0
there 2@n0,n1
listens n0 10.77.0.10
listens n1 10.77.0.11
over

begin 'a device that is not there' DYAD_NET_DEVICES=none0 DYAD_TIMEOUT=5
job 12 2@n0 sh -c "$exchange" && fail "the job ends well"
grep -q 'DYAD_NET_DEVICES=none0: n0 has no device "none0"; it has .*eth0' "$LOG" || fail "nothing says why: $(cat "$LOG")"

begin 'one that is, and one that is not: one rank of each node says so' DYAD_NET_DEVICES=eht0,eth0
there 3@n0,n1
listens n0 10.77.0.10
[ "$(grep -c 'DYAD_NET_DEVICES=eht0,eth0: n[01] has no device "eht0"; it has .*eth0' "$LOG")" = 2 ] || fail "$(cat "$LOG")"
over

begin 'guests that are promoted, on one node' DYAD_PROMOTE=5 DYAD_PREFETCH=off DYAD_STATS=1 "POOL_BEGIN=$WORK/go"
mkdir "$WORK/a" "$WORK/b"
START=none
job_begin 90 1@n0 "$BIN/dyad-run" --node a --dmd "$WORK/a" "$PYTHON" "$SOURCE_DIR/test/integration/progs/pool.py" make "$WORK/a" 200 -- \
    1@n0 "$BIN/dyad-run" --node b --dmd "$WORK/b" "$PYTHON" "$SOURCE_DIR/test/integration/progs/pool.py" work "$WORK/b" 200
unset START
seen=
while kill -0 "$JOB_PID" 2>/dev/null; do
    found=$(addresses n0)
    [ -z "$found" ] || [ "$found" = "127.0.0.1 " ] || fail "a member or a promoted guest listens on $found"
    seen=${seen:-$found}
    sleep 0.1
done
job_wait || fail "the job ends with $?: $(cat "$ERR")"
[ -n "$seen" ] || fail "nobody was seen to listen"
grep -q ' 4 promoted guests' "$LOG" || fail "nobody was promoted: $(grep statistics "$LOG")"

# A cable from the node to itself, whose address the other node reaches: UCX may choose it.
node_exec n0 ip link add pub0 type veth peer name pub1
node_exec n0 ip addr add 203.0.113.7/24 dev pub0
node_exec n0 ip link set pub0 up
node_exec n0 ip link set pub1 up
node_exec n1 ip route add 203.0.113.0/24 via 10.77.0.10

begin 'a public address: one rank of its node says so'
there 3@n0,n1
[[ $(addresses n0) == *203.0.113.7* ]] || fail "UCX does not listen there: $(addresses n0)"
[ "$(warnings)" = 1 ] || fail "$(warnings) warnings: $(cat "$LOG")"
over

begin 'none where it is left out' DYAD_NET_DEVICES=eth0
there 2@n0,n1
listens n0 10.77.0.10
[ "$(warnings)" = 0 ] || fail "$(cat "$LOG")"
over

begin 'nor where all is on one node'
there 2@n0
listens n0 127.0.0.1
[ "$(warnings)" = 0 ] || fail "$(cat "$LOG")"
over

begin 'and dyad-run --check names it'
! node_exec n0 "$BIN/dyad-run" --check >"$WORK/said" || fail "it finds nothing: $(cat "$WORK/said")"
grep -q 'unsafe on n0: pub0 has the public address 203.0.113.7' "$WORK/said" || fail "$(cat "$WORK/said")"
node_exec n0 env DYAD_NET_DEVICES=eth0,lo "$BIN/dyad-run" --check >"$WORK/said" || fail "it finds $(cat "$WORK/said")"
