#!/bin/bash
# cluster.sh - a cluster of N nodes on this machine, made out of Linux namespaces
#
#   cluster.sh up N [SIZE]           make nodes n0..n(N-1), SIZE bytes of local disk each (1g); prints
#                                    the cluster's directory: export it as CLUSTER_DIR
#   cluster.sh exec NODE CMD...      run CMD on a node, or on "head", the login node
#   cluster.sh cut NODE, heal NODE   take the node's cable out (nobody is told), put it back
#   cluster.sh kill NODE             the node is gone: all its processes killed
#   cluster.sh status, down
#
# The cluster is one process: the init of a pid namespace that also owns the network (the
# bridge, called head, has an address and is where mpirun runs). Each node is an init below it
# with namespaces of its own: pid, net, mount, uts, ipc. So nothing is visible on the host, two
# clusters cannot meet, and killing the one process ends every process, interface and mount, whatever state
# they are in. "tied DIR N SIZE" is "up" in an empty directory DIR for a script: it writes "ok" to the
# FIFO DIR/up, stays, and the cluster dies with it (lib.sh uses that).
#
# Private to a node: $CLUSTER_DIR/ssd (the node-local disk), $CLUSTER_DIR/tmp (its TMPDIR),
# /dev/shm, /proc, /sys (UCX lists /sys/class/net), SysV IPC (else UCX takes two nodes for one
# host), its host name. Shared by all: every other file, which makes the rest of the machine's
# file system the "parallel file system".
#
# Needs root, or a kernel that lets users make user namespaces.
set -eu

self=$0
[[ $self == /* ]] || self=$PWD/$self
# Network of a cluster. Clusters do not see each other or the host, so one range does for all.
net=10.77.0

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

# Wait for the line that process $2, which we started, writes into the FIFO $1; at most $3 seconds. A read whose time is over
# in the midst of the line has its beginning, which says as much.
await() {
    local fd line= i
    exec {fd}<>"$1"
    for ((i = 0; i < $3; i++)); do
        read -r -t 1 -u "$fd" line || true
        [ -z "$line" ] && kill -0 "$2" 2>/dev/null || break
    done
    exec {fd}<&-
    [ -n "$line" ]
}

# The one child of process $1: unshare's, the init of the new pid namespace.
child_of() {
    local pid=
    read -r pid _ <"/proc/$1/task/$1/children" || [ -n "$pid" ]
    echo "${pid%% *}"
}

# --- a node: runs as init of its pid namespace ------------------------------------------

node_init() {
    local dir=$1 name=$2 size=$3
    hostname "$name"
    mount -t proc proc /proc
    mount -t sysfs -o ro sysfs /sys
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=1777,size="$size" tmpfs "$dir/ssd"
    mount -t tmpfs -o mode=1777 tmpfs "$dir/tmp"
    ip link set lo up
    echo ok >"$dir/$name.ready"
    idle
}

# Be init: end what is orphaned here, for ever. bash reaps any child on SIGCHLD.
idle() {
    exec </dev/null >/dev/null 2>&1
    while :; do
        sleep infinity &
        wait $! || true
    done
}

# --- the cluster: runs as init of its pid namespace -------------------------------------

cluster_init() {
    local dir=$1 n=$2 size=$3 i name
    hostname head
    mount -t proc proc /proc
    mount -t sysfs -o ro sysfs /sys
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=1777 tmpfs "$dir/tmp"
    mount --bind "$dir/hosts" /etc/hosts
    ip link set lo up
    ip link add br0 type bridge
    ip addr add "$net.1/24" dev br0
    ip link set br0 up
    for ((i = 0; i < n; i++)); do
        name=n$i
        unshare --pid --fork --kill-child --mount --net --uts --ipc --propagation private \
            "$self" node-init "$dir" "$name" "$size" >>"$dir/$name.log" 2>&1 &
        await "$dir/$name.ready" $! 60 || { cat "$dir/$name.log" >&2; return 1; }
        local pid
        pid=$(child_of $!)
        echo "$pid" >"$dir/$name.pid"
        ip link add "v$i" type veth peer name eth0 netns "$pid"
        ip link set "v$i" master br0 up
        nsenter -t "$pid" -n ip addr add "$net.$((10 + i))/24" dev eth0
        nsenter -t "$pid" -n ip link set eth0 up
    done
    echo ok >"$dir/head.ready"
    idle
}

# --- from outside ----------------------------------------------------------------------

up() {
    local tie=$1 dir=$2 n=$3 size=$4 i user= holder
    [[ $n =~ ^[1-9][0-9]?$ ]] || fail "up: '$n' is no number of nodes (1 to 99)"
    [ "$(id -u)" -eq 0 ] || user='--user --map-root-user'
    mkdir "$dir/ssd" "$dir/tmp"
    mkfifo "$dir/head.ready"
    echo "127.0.0.1 localhost" >"$dir/hosts"
    echo "$net.1 head" >>"$dir/hosts"
    for ((i = 0; i < n; i++)); do
        echo "$net.$((10 + i)) n$i" >>"$dir/hosts"
        mkfifo "$dir/n$i.ready"
    done
    # shellcheck disable=SC2086
    $tie unshare $user --pid --fork --kill-child --mount --net --uts --ipc \
        --propagation private "$self" cluster-init "$dir" "$n" "$size" </dev/null >"$dir/head.log" 2>&1 &
    holder=$!
    if ! await "$dir/head.ready" "$holder" 120; then
        cat "$dir/head.log" >&2
        kill -9 "$holder" 2>/dev/null || true
        wait "$holder" 2>/dev/null || true
        rm -rf "$dir"
        fail "up: no cluster (see above)"
    fi
    local pid holder_started
    pid=$(child_of "$holder")
    # Start times, so that nothing else is taken for the cluster should the pids be used again.
    start_time "$holder"
    holder_started=$STARTED
    start_time "$pid"
    echo "$holder $holder_started $pid $STARTED" >"$dir/head.pid"
    ways_in "$pid" "$n" ${user:+--user --preserve-credentials}
}

# nsenter's words that lead from here to each node, in DIR/NODE.enter (lib.sh reads them, too): head's init, as this namespace
# numbers it, has a child for each node, whose child is the node's.
ways_in() { # PID N WORD...
    local head=$1 n=$2 i below node word rest pid children
    shift 2
    echo "-t $head $* -p -n -m -u -i" >"$dir/head.enter"
    read -r -a children <"/proc/$head/task/$head/children" || [ ${#children[@]} -gt 0 ]
    for below in "${children[@]}"; do
        pid=$(child_of "$below" 2>/dev/null) && [ -n "$pid" ] || continue
        while read -r word rest; do
            [ "$word" != NSpid: ] || break
        done <"/proc/$pid/status"
        for ((i = 0; i < n; i++)); do
            read -r node <"$dir/n$i.pid"
            [[ $rest != *[[:space:]]$node[[:space:]]1 ]] || echo "-t $pid $* -p -n -m -u -i" >"$dir/n$i.enter"
        done
    done
}

# When process $1 began, in STARTED; nothing if there is none.
start_time() {
    local stat=
    STARTED=
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    STARTED=${20}
}

cluster_dir() {
    dir=${CLUSTER_DIR:?"is not set: export the directory that 'cluster.sh up' printed"}
    [ -d "$dir" ] || fail "there is no cluster at $dir"
}

# True if the cluster's init is there.
lives() {
    local pid started
    [ -s "$dir/head.pid" ] || return 1
    read -r _ _ pid started <"$dir/head.pid"
    start_time "$pid"
    [ "$STARTED" = "$started" ]
}

exec_on() {
    local node=$1 enter
    shift
    cluster_dir
    [ -e "$dir/$node.pid" ] || fail "exec: no node '$node'"
    case ${CLUSTER_NODE:-} in
    '')
        lives || fail "exec: the cluster at $dir is gone"
        read -r -a enter <"$dir/$node.enter"
        ;;
    head)
        [ "$node" != head ] || exec "$@"
        read -r enter <"$dir/$node.pid"
        enter=(-t "$enter" -p -n -m -u -i)
        ;;
    *) fail "exec: only from the host or from head, not from a node" ;;
    esac
    export TMPDIR=$dir/tmp CLUSTER_NODE=$node
    exec nsenter "${enter[@]}" --wdns="$PWD" "$@"
}

down() {
    local pid
    cluster_dir
    if [ -s "$dir/head.pid" ]; then
        read -r _ _ pid _ <"$dir/head.pid"
        if lives; then
            kill -9 "$pid" 2>/dev/null || true
            # Ends when the last process of the namespace has been reaped.
            tail -s 0.05 --pid="$pid" -f /dev/null
        fi
    fi
    rm -rf --one-file-system "$dir"
}

node_number() {
    [[ $1 =~ ^n[0-9]+$ && -e $dir/$1.pid ]] || fail "no node '$1'"
    echo "${1#n}"
}

case ${1:-} in
node-init | cluster-init)
    what=${1/-/_}
    shift
    "$what" "$@"
    ;;
up)
    dir=$(mktemp -d "${TMPDIR:-/tmp}/dyad-cluster.XXXXXX")
    up setsid "$dir" "${2:?N}" "${3:-1g}"
    echo "$dir"
    ;;
tied)
    up 'setpriv --pdeathsig KILL' "$2" "$3" "$4"
    echo ok >"$2/up"
    wait
    ;;
exec)
    [ $# -ge 3 ] || fail "exec NODE CMD..."
    shift
    exec_on "$@"
    ;;
cut)
    cluster_dir
    number=$(node_number "${2:?NODE}")
    "$self" exec head ip link set "v$number" nomaster
    ;;
heal)
    cluster_dir
    number=$(node_number "${2:?NODE}")
    "$self" exec head ip link set "v$number" master br0
    ;;
kill)
    cluster_dir
    node_number "${2:?NODE}" >/dev/null
    "$self" exec head kill -9 "$(cat "$dir/$2.pid")"
    rm -f "$dir/$2.pid" "$dir/$2.enter"
    ;;
down) down ;;
status)
    cluster_dir
    lives || fail "the cluster at $dir is gone; 'down' removes what is left of it"
    for pidfile in "$dir"/n*.pid; do
        node=$(basename "$pidfile" .pid)
        printf '%s\t%s\t%s processes\n' "$node" "$net.$((10 + ${node#n}))" \
            "$("$self" exec "$node" sh -c 'ls /proc' | grep -c '^[0-9]')"
    done
    ;;
-h | --help) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p}' "$self" ;;
*) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p}' "$self" >&2; exit 2 ;;
esac
