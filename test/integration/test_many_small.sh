#!/bin/bash
# 1,000 files of 4 KiB from one node to two others: consumers first, then producers first.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
X=$PROGS/xfer

# Consumers wait in their opens before the first file is written: one thread, and 64.
job_ok 120 1@n0 "$X" write -d "$SSD" -n 1000 -s 4096 -S "$WORK/w" -a "$WORK/ready.1" -a "$WORK/ready.2" -- \
    1@n1 "$X" read -d "$SSD" -n 1000 -s 4096 -S "$WORK/r1" -r "$WORK/ready.%r" -- \
    1@n2 "$X" read -d "$SSD" -n 1000 -s 4096 -S "$WORK/r2" -r "$WORK/ready.%r" -t 64
same_sums 1000 n0 n1 n2
for got in r1 r2; do
    cmp <(sort "$WORK/w") <(sort "$WORK/$got") || fail "what was written and $got differ"
done

# Producers on two nodes are done before the consumer begins; dyad-run starts all of them.
clean_ssd
START=dyad-run job_ok 120 2@n0,n1 "$X" write -d "$SSD" -p 'p%r' -n 500 -s 4096 -x 7 -e "$WORK/done.%r" -S "$WORK/w.%r" -m fopen -- \
    1@n2 "$X" read -d "$SSD" -p p0 -n 500 -s 4096 -x 7 -a "$WORK/done.0" -a "$WORK/done.1" -S "$WORK/r.0" -m fopen -- \
    1@n2 "$X" read -d "$SSD" -p p1 -n 500 -s 4096 -x 7 -a "$WORK/done.0" -a "$WORK/done.1" -S "$WORK/r.1" -t 8
for i in 0 1; do
    cmp <(sort "$WORK/w.$i") <(sort "$WORK/r.$i") || fail "what was written and read of p$i differ"
done
[ "$(sums_on n2 | wc -l)" -eq 1000 ] || fail "n2 has $(sums_on n2 | wc -l) files"

# All read what all write, four ranks to a node, in one job.
clean_ssd
job_ok 120 6@n0,n1,n2 "$X" write -d "$SSD" -p 'q%r' -n 50 -s 4096 -m rename -- \
    3@n0,n1,n2 "$X" read -d "$SSD" -p q0 -n 50 -s 4096 -- \
    3@n0,n1,n2 "$X" read -d "$SSD" -p q5 -n 50 -s 4096
