#!/bin/bash
# Ranks on two and three nodes write one file, and read what the others have written while all have it open
# (progs/joint.py): after a barrier each has the bytes and the length that all have written, however it reads.
# DYAD_TEST_LEVEL=long: 4 seeds; soak: 60. JOINT_SEED=N: the first.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=60 ;; long) runs=4 ;; *) runs=1 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=20)
begin=${JOINT_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    for how in creat first late; do
        for where in 2@n0,n1 5@n0,n1,n2; do
            rm -f "$WORK"/at.*
            : >"$LOG"
            job 60 "$where" "$PYTHON" "$TEST_DIR/integration/progs/joint.py" "${where%%@*}" "$seed" 8 $how ||
                fail "JOINT_SEED=$seed, $how, $where: status $?: $(cat "$OUT")"
            clean_ssd
        done
    done
done

# A process that is killed: what it had written when it was is read, as on one node.
cat >"$WORK/killed.py" <<'EOT'
import os, signal, time
W, SSD, me = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"])
path = f"{SSD}/killed"

def sync(name):
    open(f"{W}/flag.{name}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/flag.{name}.{r}") for r in range(2)):
        time.sleep(0.001)

if me == 0:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, b"a" * 100, 0)
sync("open")
if me == 1:
    pid = os.fork()
    if pid == 0:
        os.pwrite(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), b"b" * 100, 100)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
sync("killed")
if me == 0:
    have = os.pread(fd, 300, 0)
    assert have == b"a" * 100 + b"b" * 100, have
    os.close(fd)
sync("end")
EOT
: >"$LOG"
job_ok 60 2@n0,n1 "$PYTHON" "$WORK/killed.py"
say "seeds $begin to $((seed - 1)): each rank has read what all have written"
