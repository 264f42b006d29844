#!/bin/bash
# bench_blocked.sh - from a close to a waiting open's return, with 0, 1, 8 and 32 other opens of each rank blocked
#
#   test/bench/bench_blocked.sh [BUILD-DIRECTORY [ROUNDS]]
#
# Two ranks, two "nodes" (DYAD_NODE), over TCP on loopback. Not a test: nothing is asserted.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=${1:-$top/build/release} rounds=${2:-300}
work=$(mktemp -d /dev/shm/dyad-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
bench=$work/bench_blocked
cc -O2 -D_GNU_SOURCE -o "$bench" "$top/test/bench/bench_blocked.c"
mkdir "$work/a" "$work/b"
timeout -k 5 300 mpirun --oversubscribe --bind-to none \
    -np 1 "$build/bin/dyad-run" --node a --dmd "$work/a" -- "$bench" first "$work/a" "$rounds" : \
    -np 1 "$build/bin/dyad-run" --node b --dmd "$work/b" -- "$bench" second "$work/b" "$rounds"
