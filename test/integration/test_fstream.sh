#!/bin/bash
# A C++ pair that uses std::ofstream and std::ifstream.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
job_ok 60 1@n0 "$PROGS/streams" produce "$SSD" 50 -- 1@n1 "$PROGS/streams" consume "$SSD" 50
grep -q 'consumed 50' "$OUT" || fail "the consumer did not report"
same_sums 50 n0 n1
