#!/bin/bash
# The harness itself: nodes are apart, mpirun reaches them, nothing is left.
. "$(dirname "$0")/lib.sh"
cluster_up 3 64m

# Ranks are where they should be, each with the node's own name and disk.
START=none job_ok 30 2@n0 sh -c 'hostname; hostname >"$0/$PMIX_RANK"' "$SSD" -- \
    4@n1,n2 sh -c 'hostname; hostname >"$0/$PMIX_RANK"' "$SSD"
[ "$(sort "$OUT" | tr '\n' ' ')" = "n0 n0 n1 n1 n2 n2 " ] || fail "ranks ran on: $(sort "$OUT" | tr '\n' ' ')"
for node in n0 n1 n2; do
    [ "$(node_exec $node sh -c 'cat "$0"/*' "$SSD" | sort -u)" = $node ] || fail "$node sees another disk"
done

# Nodes reach each other, and not the host's network.
[ "$(node_exec n0 ls /sys/class/net | tr '\n' ' ')" = "eth0 lo " ] || fail "n0 has other interfaces"
[ "$(node_exec n1 getent hosts n2 | awk '{print $1}')" = 10.77.0.12 ] || fail "n1 does not know n2"
[ "$(node_exec n0 readlink /proc/self/ns/ipc)" != "$(node_exec n1 readlink /proc/self/ns/ipc)" ] ||
    fail "n0 and n1 share their IPC namespace"

# A status is passed on; a job that hangs is ended.
status=0
START=none job 30 1@n1 sh -c 'exit 3' || status=$?
[ $status -eq 3 ] || fail "status of the rank: 3, of mpirun: $status"
status=0
START=none job 2 2@n1,n2 sleep 100 || status=$?
[ $status -eq 124 ] || [ $status -eq 137 ] || fail "a job that hangs ended with $status"

# What a job leaves is found.
node_exec n1 sh -c 'setsid sleep 50 >/dev/null 2>&1 </dev/null &'
if nobody_on n1; then fail "a stray process was not found"; fi

# A node can vanish, a cable can be cut and healed.
reach() {
    local answer
    answer=$(node_exec n0 timeout 1 bash -c 'exec 3<>/dev/tcp/n2/9' 2>&1) || true
    [[ $answer == *refused* ]]
}
until_true 5 "n2 answers" reach
"$CLUSTER_SH" cut n2
if reach; then fail "n2 answers without a cable"; fi
"$CLUSTER_SH" heal n2
until_true 5 "n2 answers again" reach
"$CLUSTER_SH" kill n1
if node_exec n1 true 2>/dev/null; then fail "n1 lives"; fi
NODES=(n0 n2)

# A second cluster beside this one, killed without warning: nothing of it lives on.
marker=$WORK/second
TMPDIR=$WORK bash -c '. "$0"; cluster_up 2 16m; echo $CLUSTER_DIR >"$1.tmp"; mv "$1.tmp" "$1"; node_exec n1 sleep 1000' \
    "$TEST_DIR/cluster/lib.sh" "$marker" &
second=$!
until_true 20 "a second cluster" test -e "$marker"
dir=$(cat "$marker")
read -r holder _ init _ <"$dir/head.pid"
kill -9 $second
wait $second 2>/dev/null || true
gone() {
    [ ! -e "/proc/$holder" ] && [ ! -e "/proc/$init" ]
}
until_true 5 "the second cluster is gone" gone
say "all right"
