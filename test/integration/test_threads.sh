#!/bin/bash
# 64 threads of a rank open, close, wait, rename, look, fork and exec at once; 64 of another one check them.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
rounds=7 # each thread has gone through all ways of making a file
[ $LEVEL != soak ] || rounds=70
job_ok 200 1@n0 "$PROGS/many_threads" "$SSD" a b 64 $rounds -- 1@n1 "$PROGS/many_threads" "$SSD" b a 64 $rounds
[ "$(grep -c "64 threads, $rounds rounds" "$OUT")" -eq 2 ] || fail "a rank did not get to its end"
! grep -q ': error:' "$LOG" || fail "something was logged as an error: $(grep -m1 ': error:' "$LOG")"
# Each node has its own files of the last two rounds, and what it fetched of the other's.
same_sums 256 n0 n1
