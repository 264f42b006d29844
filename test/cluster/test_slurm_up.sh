#!/bin/bash
# A Slurm of our own starts, gives ranks their PMIx environment on three nodes, and is gone after.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/slurm.sh"
cluster_up 3 64m
slurm_up
START=none slurm_job_ok 30 -N3 --ntasks-per-node=2 sh -c 'echo "$(hostname) ${PMIX_NAMESPACE:+namespace} $PMIX_RANK $SLURMD_NODENAME"'
sort -k3 "$OUT" >"$WORK/ranks"
[ "$(awk '{print $1 "=" $4}' "$WORK/ranks" | sort | uniq -c | tr -s ' \n' ' ')" = " 2 n0=n0 2 n1=n1 2 n2=n2 " ] ||
    fail "ranks: $(cat "$WORK/ranks")"
[ "$(awk '{print $2 $3}' "$WORK/ranks" | tr '\n' ' ')" = "namespace0 namespace1 namespace2 namespace3 namespace4 namespace5 " ] ||
    fail "ranks: $(cat "$WORK/ranks")"
say "all right"
