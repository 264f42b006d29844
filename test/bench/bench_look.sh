#!/bin/bash
# bench_look.sh - what a look-up of a published name costs: one rank of a node asks the homes, another rank of the node
# looks for the same names after it, each looks a second time
#
#   test/bench/bench_look.sh [BUILD-DIRECTORY [FILES]]
#
# Two "nodes" (DYAD_NODE) over TCP on loopback. With 7 ranks of which 6 are on the other node, 4 names in 5 are at homes
# there. Not a test: nothing is asserted.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=${1:-$top/build/release} files=${2:-1000}
work=$(mktemp -d /dev/shm/dyad-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cc -O2 -D_GNU_SOURCE -o "$work/bench_look" "$top/test/bench/bench_look.c"
mkdir "$work/a" "$work/b" "$work/sync"
on() {
    echo "$build/bin/dyad-run --node $1 --dmd $work/$1 --"
}
# shellcheck disable=SC2046
timeout -k 5 120 mpirun --oversubscribe --bind-to none -x DYAD_STATS=1 \
    -np 1 $(on b) "$work/bench_look" look "$work/b" "$work/sync" "$files" one published : \
    -x DYAD_STATS=1 -np 1 $(on b) "$work/bench_look" look "$work/b" "$work/sync" "$files" two one : \
    -np 1 $(on a) "$work/bench_look" publish "$work/a" "$work/sync" "$files" : \
    -np 5 $(on a) bash -c 'until [ -e "$0" ]; do sleep 0.1; done' "$work/sync/two.$((files / 50 - 1))" 2>&1 |
    sed 's/.*\(rank [01]\).*\(look-ups: [^;]*\);.*/\1: \2/'
