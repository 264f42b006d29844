#!/bin/bash
# 64 files of 16 MiB from one node to two others: consumers first, then producers first.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3 2g
X=$PROGS/xfer

job_ok 150 1@n0 "$X" write -d "$SSD" -n 64 -s 16M -S "$WORK/w" -a "$WORK/ready.1" -a "$WORK/ready.2" -- \
    1@n1 "$X" read -d "$SSD" -n 64 -s 16M -S "$WORK/r1" -r "$WORK/ready.%r" -- \
    1@n2 "$X" read -d "$SSD" -n 64 -s 16M -S "$WORK/r2" -r "$WORK/ready.%r" -t 8 -m mmap
same_sums 64 n0 n1 n2
for got in r1 r2; do
    cmp <(sort "$WORK/w") <(sort "$WORK/$got") || fail "what was written and $got differ"
done

clean_ssd
job_ok 150 1@n0 "$X" write -d "$SSD" -n 64 -s 16M -x 3 -e "$WORK/done" -m mmap -- \
    2@n1,n2 "$X" read -d "$SSD" -n 64 -s 16M -x 3 -a "$WORK/done" -m fopen
same_sums 64 n0 n1 n2
