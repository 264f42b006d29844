#!/bin/bash
# One file of 5 GiB between two nodes; the memory of both processes stays flat.
. "$(dirname "$0")/../cluster/lib.sh"
free=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
[ "$free" -ge 12 ] || skip "needs 12 GiB of memory for two nodes' disks; $free are free"
cluster_up 2 5500m
X=$PROGS/xfer
LIMIT=200000 # kB

# Both stay until their memory has been looked at.
begin=$SECONDS
job_begin 240 1@n0 "$X" write -d "$SSD" -p big -s 5G -S "$WORK/w" -a "$WORK/ready" -h "$WORK/looked" -- \
    1@n1 "$X" read -d "$SSD" -p big -s 5G -S "$WORK/r" -r "$WORK/ready" -e "$WORK/read" -h "$WORK/looked"
read_or_over() {
    [ -e "$WORK/read" ] || ! kill -0 "$JOB_PID" 2>/dev/null
}
until_true 240 "the file is read" read_or_over
for node in n0 n1; do
    peak=$(node_exec $node sh -c 'for p in $(pgrep -x xfer); do sed -n "s/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p" /proc/$p/status; done' || true)
    [ -n "$peak" ] || fail "no xfer on $node to look at"
    say "peak memory on $node: $peak kB"
    [ "$peak" -lt $LIMIT ] || fail "peak memory on $node: $peak kB, allowed: $LIMIT"
done
: >"$WORK/looked"
job_end_ok 240
say "5 GiB written, fetched and checked in $((SECONDS - begin)) s"
cmp "$WORK/w" "$WORK/r" || fail "written and read sums differ"

for node in n0 n1; do
    size=$(node_exec $node stat -c %s "$SSD/big.000000")
    [ "$size" = $((5 << 30)) ] || fail "big.000000 on $node has $size bytes"
done
