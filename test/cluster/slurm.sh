# shellcheck shell=bash disable=SC2034
# slurm.sh - a real Slurm on the cluster of lib.sh: munged and slurmctld on the head, slurmd on each node
#
# Sourced after lib.sh, used after cluster_up. All of it runs in the foreground of the cluster's
# namespaces and ends with the cluster; its files are below $WORK/slurm.

# slurm_up: returns when all nodes are idle.
slurm_up() {
    PATH=$PATH:/usr/sbin:/sbin
    need munged slurmctld slurmd srun sinfo
    local dir=$WORK/slurm node
    [ "$(id -u)" -eq 0 ] || skip "needs root, to run slurmd"
    mkdir -p "$dir/state"
    for node in "${NODES[@]}"; do
        mkdir -p "$dir/spool/$node"
    done
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
    cat >"$dir/slurm.conf" <<EOF
ClusterName=dyad
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
TmpFS=$CLUSTER_DIR/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
NodeName=n[0-$((${#NODES[@]} - 1))] CPUs=64 RealMemory=8000
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
EOF
    # Named, so that slurmd does not look for a mounted one: no controller of it is in use.
    echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
    export SLURM_CONF=$dir/slurm.conf
    node_exec head munged --foreground --force --key-file="$dir/munge.key" \
        --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" \
        --seed-file="$dir/munge.seed" </dev/null >"$dir/munged.out" 2>&1 &
    until_true 10 "munged's socket" test -S "$dir/munge.socket"
    node_exec head slurmctld -D -i -f "$SLURM_CONF" </dev/null >"$dir/slurmctld.out" 2>&1 &
    for node in "${NODES[@]}"; do
        node_exec "$node" slurmd -D -f "$SLURM_CONF" -N "$node" </dev/null >"$dir/slurmd.$node.out" 2>&1 &
    done
    until_true 30 "all nodes of Slurm idle" slurm_idle
}

slurm_idle() {
    [ "$(node_exec head sinfo -h -t idle -o %D 2>/dev/null)" = "${#NODES[@]}" ]
}

# slurm_job SECONDS SRUN-ARGS... PROGRAM...: under srun --mpi=pmix with the preload.
slurm_job() {
    local seconds=$1 variable environment=ALL status=0
    shift
    JOBS=$((JOBS + 1))
    OUT=$WORK/job.$JOBS.out ERR=$WORK/job.$JOBS.err
    for variable in "${JOB_ENV[@]}"; do
        environment=$environment,$variable
    done
    case ${START:-x} in
    x) environment="$environment,LD_PRELOAD=$PRELOAD,DYAD_PATH=$SSD" ;;
    none) ;;
    esac
    # PMIX_MCA_gds is srun's own as well: it is the client's and the server's store.
    PMIX_MCA_gds=hash node_exec head timeout -k 2 "$seconds" srun --mpi=pmix --overlap \
        --export="$environment" "$@" </dev/null >"$OUT" 2>"$ERR" || status=$?
    return $status
}

slurm_job_ok() {
    local status=0
    slurm_job "$@" || status=$?
    [ $status -ne 124 ] && [ $status -ne 137 ] || fail "job $JOBS did not end within $1 s"
    [ $status -eq 0 ] || fail "job $JOBS ended with status $status"
    sanitizers_silent
}
