#!/bin/bash
# bench_relay.sh NODES MIB - a file of MIB to one node, and to NODES nodes at once, over links that carry 50 MB/s
#
# Prints two lines, "one" and "all", with the microseconds from the first open to the last read, and "sent", the bytes that
# the owner's link has sent for "all". DYAD_BUILD_DIR: the build.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh" >&2
cluster_up $(($1 + 1)) $(($2 + 64))m >&2
SIZE=$(($2 << 20))
nodes=
for ((i = 0; i <= $1; i++)); do
    node_exec "n$i" tc qdisc add dev eth0 root tbf rate 50mbps burst 256k latency 100ms
    [ $i = 0 ] || nodes+=${nodes:+,}n$i
done
JOB_ENV+=("W=$WORK" "SSD=$SSD" "SIZE=$SIZE")
sent() { node_exec n0 cat /sys/class/net/eth0/statistics/tx_bytes; }
# fetched NAME NP@NODES: microseconds for all of them.
fetched() {
    clean_ssd
    rm -f "$WORK"/t.*
    job_ok 300 1@n0 bash -c 'head -c "$SIZE" /dev/zero >"$SSD/$0" && : >"$W/go.$0"' "$1" -- \
        "$2" bash -c 'until [ -e "$W/go.$0" ]; do sleep 0.01; done
            begin=$EPOCHREALTIME; cat "$SSD/$0" >/dev/null || exit 1; echo "$begin $EPOCHREALTIME" >"$W/t.$PMIX_RANK"' "$1" >&2
    cat "$WORK"/t.* | awk '{ if (!b || $1 < b) b = $1; if ($2 > e) e = $2 } END { printf "%.0f", (e - b) * 1e6 }'
}
echo "one $(fetched one 1@n1)"
before=$(sent)
echo "all $(fetched all "$1@$nodes")"
echo "sent $(($(sent) - before))"
