#!/bin/bash
# Producers and consumers under srun --mpi=pmix on a Slurm of our own.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/../cluster/slurm.sh"
cluster_up 3
slurm_up
HERE=$SOURCE_DIR/test/integration/progs
X=$PROGS/xfer

# Rank 0 on n0 writes, 1 on n1 and 2 on n2 read: first before, then after it.
cat >"$WORK/roles" <<EOF
0 $X write -d $SSD -n 200 -s 16K -S $WORK/w -a $WORK/ready.1 -a $WORK/ready.2
1 $X read -d $SSD -n 200 -s 16K -S $WORK/r1 -r $WORK/ready.1
2 $X read -d $SSD -n 200 -s 16K -S $WORK/r2 -r $WORK/ready.2 -t 8
EOF
slurm_job_ok 60 -N3 -n3 --multi-prog "$WORK/roles"
same_sums 200 n0 n1 n2
for got in r1 r2; do
    cmp <(sort "$WORK/w") <(sort "$WORK/$got") || fail "what was written and $got differ"
done

clean_ssd
cat >"$WORK/roles" <<EOF
0 $HERE/shell_producer.sh $SSD
1 $HERE/shell_consumer.sh $SSD
2 $X read -d $SSD -n 0
EOF
slurm_job_ok 60 -N3 -n3 --multi-prog "$WORK/roles"
grep -q 'producer: 8 files, 1000 lines' "$OUT" || fail "the answer did not arrive"

clean_ssd
slurm_job_ok 60 -N2 -n2 "$HERE/shell_exec.sh" "$SSD" bash -c '
    echo after >"$0/after.$PMIX_RANK"
    read -r line <"$0/after.$((1 - PMIX_RANK))"
    [ "$line" = after ] && echo exec survived' "$SSD"
[ "$(grep -c 'exec survived' "$OUT")" -eq 2 ] || fail "not both ranks went on after exec"

# 16 ranks that all wait for each other: nobody may be told that nobody is left.
for _ in 1 2 3; do
    clean_ssd
    slurm_job_ok 60 -N3 -n16 "$HERE/shell_all_to_all.sh" "$SSD" 16
    [ "$(grep -c 'all read' "$OUT")" -eq 16 ] || fail "not all 16 ranks read all"
done

# One machine as two nodes: DYAD_NODE and a directory per task.
clean_ssd
cat >"$WORK/roles" <<EOF
0 env DYAD_NODE=a DYAD_PATH=$SSD/a $X write -d $SSD/a -n 20 -s 1M -a $WORK/both
1 env DYAD_NODE=b DYAD_PATH=$SSD/b $X read -d $SSD/b -n 20 -s 1M -r $WORK/both
EOF
node_exec n0 mkdir "$SSD/a" "$SSD/b"
START=none slurm_job_ok 60 -N1 -n2 --export="ALL,LD_PRELOAD=$PRELOAD" --multi-prog "$WORK/roles"
cmp <(sums_on n0 "$SSD/a") <(sums_on n0 "$SSD/b") || fail "a and b differ"
