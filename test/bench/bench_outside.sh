#!/bin/bash
# bench_outside.sh - what a program pays that never touches a managed directory; see bench_outside.c
#
#   test/bench/bench_outside.sh [BUILD-DIRECTORY]
#
# Not a test: nothing is asserted. That such a program starts no thread and opens no library is one:
# integration/untouched.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=${1:-$top/build/release}
work=$(mktemp -d /tmp/dyad-bench.XXXXXX)
BENCH_OUTSIDE=$(mktemp -d /tmp/bench-outside.XXXXXX)
export BENCH_OUTSIDE
trap 'rm -rf "$work" "$BENCH_OUTSIDE"' EXIT
mkdir -p "$work/dmd" "$BENCH_OUTSIDE/some"
echo some >"$BENCH_OUTSIDE/some/file"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cc -O2 -D_GNU_SOURCE -o "$work/bench_outside" "$top/test/bench/bench_outside.c"
wrapper=$build/lib/libdyad_wrapper.so
[ -e "$wrapper" ] || wrapper=$build/libdyad_wrapper.so
"$work/bench_outside" "$wrapper" "$work/dmd"
timeout -k 5 120 mpirun --bind-to none -np 1 "$work/bench_outside" "$wrapper" "$work/dmd"
