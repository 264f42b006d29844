#!/bin/bash
# Signal handlers that use files while their thread is in the library or waits there, and that interrupt it; cancellation; few
# descriptors.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2

N=300
[ $LEVEL != soak ] || N=3000
job_ok 60 1@n0 bash -c '"$0" storm "$1" $2 && "$0" cancel "$1" && "$0" interrupt "$1" && exec "$0" wait "$1"' "$PROGS/async" "$SSD" $N -- \
    1@n1 bash -c '"$0" serve "$1" && exec env DYAD_TIMEOUT=20 "$0" check "$1" $2' "$PROGS/async" "$SSD" $N

# A small limit of descriptors, set at the start and when the member has joined: shown to the program, in
# force for its children.
job_ok 40 1@n0 bash -c '
    ulimit -n 64
    for i in {1..40}; do echo $i >"$0/few$i"; done
    for i in {10..49}; do eval "exec $i>$0/open$i"; done
    for i in {10..49}; do echo $i >&$i; done' "$SSD" -- \
    1@n1 bash -c '
    export DYAD_TIMEOUT=10
    cat "$0/few1" >/dev/null
    ulimit -n 24
    [ $(ulimit -n) = 24 ] && [ $(bash -c "ulimit -n") = 24 ] || exit 1
    for i in {1..40}; do [ "$(cat "$0/few$i")" = $i ] || exit 2; done
    for i in {10..49}; do [ "$(cat "$0/open$i")" = $i ] || exit 3; done' "$SSD"

# Too small a limit to join with: said, and the program goes on.
job_ok 40 1@n0 bash -c 'ulimit -n 16; exec bash -c "echo x >\"\$0/x\"; cat \"\$0/x\"" "$0"' "$SSD" -- \
    1@n1 env DYAD_JOIN_TIMEOUT=1 true
grep -q 'a limit of 16 open descriptors is too small to join' "$LOG" "$ERR" || fail "nobody says that the limit is too small"
