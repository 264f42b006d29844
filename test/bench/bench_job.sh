#!/bin/bash
# bench_job.sh - the costs of the main job on this machine: two ranks, two "nodes" (DYAD_NODE), over TCP on loopback
#
#   test/bench/bench_job.sh [BUILD-DIRECTORY [FILES [LARGE-MIB [DIRECTORY]]]]
#
# BENCH_VARIANTS="NAME=VALUE NAME=VALUE...": one run with each of these settings, for comparison, as in
# BENCH_VARIANTS="DYAD_REPLICAS=1 DYAD_REPLICAS=2".
# DIRECTORY (default /dev/shm) is the file system that stands for node-local storage. Not a test: nothing is asserted.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=${1:-$top/build/release} files=${2:-1000} mib=${3:-1024} base=${4:-/dev/shm}
work=$(mktemp -d "$base/dyad-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
bench=$build/bin/bench_job
[ -x "$bench" ] || bench=$work/bench_job
[ -x "$bench" ] || cc -O2 -D_GNU_SOURCE -o "$bench" "$top/test/bench/bench_job.c"
for variant in ${BENCH_VARIANTS:-BENCH_VARIANT=default}; do
    [ -z "${BENCH_VARIANTS:-}" ] || echo "== $variant"
    rm -rf "$work"/a "$work"/b "$work"/plain-*
    mkdir "$work/a" "$work/b" "$work/plain-a" "$work/plain-b"
    timeout -k 5 300 mpirun --oversubscribe --bind-to none -x "$variant" \
        -np 1 "$build/bin/dyad-run" --node a --dmd "$work/a" -- "$bench" produce "$work/a" "$work/plain-a" "$files" "$mib" : \
        -x "$variant" \
        -np 1 "$build/bin/dyad-run" --node b --dmd "$work/b" -- "$bench" consume "$work/b" "$work/plain-b" "$files" "$mib"
done
