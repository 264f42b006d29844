#!/bin/bash
# bench_promotion.sh - a pool of four python workers that reads another node's data set, with and without promotion
#
#   test/bench/bench_promotion.sh [BUILD-DIRECTORY [FILES [ROUNDS [DIRECTORY]]]]
#
# Two ranks, two "nodes" (DYAD_NODE), TCP on loopback; the rounds alternate, so that what else the machine does meets
# both alike. 64 KiB files, every 50th 8 MiB. DIRECTORY (default /dev/shm) stands for node-local storage. Nothing is asserted.
set -eu -o pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=${1:-$top/build/release} files=${2:-1000} rounds=${3:-5} base=${4:-/dev/shm}
work=$(mktemp -d "$base/dyad-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
python=$(PATH=/usr/bin:/bin:$PATH command -v python3)
pool=$top/test/integration/progs/pool.py

once() { # once PROMOTE: MB/s of the pool after its first files
    rm -rf "$work/a" "$work/b" "$work/begin"
    mkdir "$work/a" "$work/b"
    timeout -k 5 120 mpirun --oversubscribe --bind-to none -x "DYAD_PROMOTE=$1" -x "POOL_BEGIN=$work/begin" \
        -np 1 "$build/bin/dyad-run" --node a --dmd "$work/a" -- "$python" "$pool" make "$work/a" "$files" : \
        -np 1 -x "DYAD_PROMOTE=$1" -x "POOL_BEGIN=$work/begin" "$build/bin/dyad-run" --node b --dmd "$work/b" -- "$python" "$pool" scan "$work/b" "$files" |
        sed -n 's/^pool:.* s, \([0-9]*\) MB.*/\1/p'
}

median() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

for ((i = 0; i < rounds; i++)); do
    once 0 >>"$work/off"
    once 5 >>"$work/on"
done
off=$(median <"$work/off") on=$(median <"$work/on")
echo "off: $(paste -sd' ' "$work/off") MB/s"
echo "on:  $(paste -sd' ' "$work/on") MB/s"
echo "ratio of the medians: $(awk "BEGIN { printf \"%.2f\", $on / $off }")"
