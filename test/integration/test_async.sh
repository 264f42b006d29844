#!/bin/bash
# Signal handlers that use files while their thread is in the library or waits there; cancellation; few
# descriptors.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2

N=300
[ -z "${DYAD_TEST_LONG:-}" ] || N=3000
job_ok 60 1@n0 bash -c '"$0" storm "$1" $2 && "$0" cancel "$1" && exec "$0" wait "$1"' "$PROGS/async" "$SSD" $N -- \
    1@n1 bash -c '"$0" serve "$1" && exec env DYAD_TIMEOUT=20 "$0" check "$1" $2' "$PROGS/async" "$SSD" $N

# A small limit of descriptors at the start, and one that is set when the member has joined.
job_ok 60 1@n0 bash -c '
    ulimit -n 64
    for i in {1..40}; do echo $i >"$0/few$i"; done
    for i in {1..40}; do exec {fd[i]}>"$0/open$i"; done
    for i in {1..40}; do echo $i >&${fd[i]}; done
    exit 0' "$SSD" -- \
    1@n1 bash -c '
    cat "$0/few1" >&2
    ulimit -n 24
    for name in few open; do for i in {1..40}; do [ "$(cat "$0/$name$i")" = $i ] || exit 1; done; done
    echo done >"$0/done"' "$SSD"
