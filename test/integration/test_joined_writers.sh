#!/bin/bash
# What the homes believe of who writes a file: an open that fails, changes nothing or finds the file whole, and ranks that
# are killed after their close, leave no reader waiting; nor does an open for writing bring what others have not finished.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
cat >"$WORK/case.py" <<'EOT'
import os, resource, signal, subprocess, sys, time
W, SSD, me, case = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"]), sys.argv[1]
path, new = f"{SSD}/f", os.O_RDWR | os.O_CREAT

def flag(name):
    open(f"{W}/flag.{name}", "x").close()

def wait(name):
    while not os.path.exists(f"{W}/flag.{name}"):
        time.sleep(0.002)

def killed():
    flag("dying")
    os.kill(os.getpid(), signal.SIGKILL)

def reader(timeout=10):
    return subprocess.Popen(["cat", path], env=dict(os.environ, DYAD_TIMEOUT=str(timeout)), stdout=subprocess.PIPE)

def reads(want, by=None):
    have = (by or reader()).communicate()[0]
    assert have == want, (case, have, want)

def writes(data, offset, fd=None):
    fd = os.open(path, new) if fd is None else fd
    os.pwrite(fd, data, offset)
    return fd

# "r+" that waited for a file that another makes, keeps it, changes nothing and is killed.
if case == "update":
    if me == 0:
        fd = os.open(path, os.O_RDWR); flag("a"); wait("b"); os.close(fd); killed()
    elif me == 1:
        time.sleep(0.3); open(path, "w").write("whole"); wait("end")
    else:
        wait("a"); reads(b"whole"); flag("b"); wait("dying"); reads(b"whole"); flag("end")
# An open that fails while another descriptor of the rank has the file.
elif case == "fails":
    if me == 0:
        fd = os.open(path, new); flag("a"); wait("b"); writes(b"AAAA", 0, fd)
        taken, limit = [], resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limit[1]))
        try:
            while True:
                taken.append(os.dup(2))
        except OSError:
            pass
        try:
            os.open(path, new)
            raise AssertionError("it was opened")
        except OSError:
            pass
        for each in taken:
            os.close(each)
        flag("c"); wait("reads"); os.close(fd); wait("end")
    elif me == 1:
        wait("a"); fd = os.open(path, new); flag("b"); writes(b"BBBB", 4, fd); wait("c"); os.close(fd); flag("d"); wait("end")
    else:
        wait("d"); by = reader(); time.sleep(0.3); flag("reads"); reads(b"AAAABBBB", by); flag("end")
# An open that made nothing and wrote nothing brings what there is; who reads it waits for the rest.
elif case == "brings":
    if me == 0:
        fd = writes(b"AAAA", 0); flag("a"); wait("b"); os.close(fd); flag("c"); wait("end")
    elif me == 1:
        wait("a"); fd = writes(b"BBBB", 4); flag("b"); wait("reads"); os.close(fd); wait("end")
    else:
        wait("c"); os.close(os.open(path, new)); by = reader(); time.sleep(0.3); flag("reads")
        reads(b"AAAABBBB", by); flag("end")
# Two ranks of a node close, and their pieces are put into another node's file; the first is killed after that.
elif case == "merged":
    if me == 0:
        wait("b"); os.close(writes(b"AAAA", 0)); flag("c"); wait("end")
    elif me == 1:
        fd = os.open(path, new); flag("a"); wait("b"); writes(b"BBBB", 4, fd); wait("c"); os.close(fd); flag("d"); wait("e")
        killed()
    elif me == 2:
        wait("a"); fd = writes(b"CCCC", 8); flag("b"); wait("d"); os.close(fd); flag("e"); wait("end")
    else:
        wait("dying"); reads(b"AAAABBBBCCCC"); flag("end")
# The first of a node's two closes, and is killed; the second writes on.
elif case == "heir":
    if me == 0:
        fd = writes(b"AAAA", 0); flag("a"); wait("b"); os.close(fd); killed()
    elif me == 1:
        wait("a"); fd = os.open(path, os.O_RDWR); os.pwrite(fd, b"BBBB", 4); flag("b"); wait("reads"); os.close(fd); wait("end")
    else:
        wait("dying"); time.sleep(0.5); by = reader(); time.sleep(0.3); flag("reads"); reads(b"AAAABBBB", by); flag("end")
open(f"{W}/ok.{me}", "x").close()
EOT
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=2)
one() { # CASE RANKS-THAT-COME-TO-THE-END NODE...
    local words=() node case=$1 ends=$2
    shift 2
    clean_ssd
    rm -f "$WORK"/flag.* "$WORK"/ok.*
    for node in "$@"; do
        [ ${#words[@]} = 0 ] || words+=(--)
        words+=("1@$node" "$PYTHON" "$WORK/case.py" "$case")
    done
    job_killed 40 "$ends" "${words[@]}"
    say "$case"
}
one update '1 2' n0 n1 n2
one fails '0 1 2' n0 n1 n2
one brings '0 1 2' n0 n1 n2
one merged '0 2 3' n0 n1 n1 n2
one heir '1 2' n0 n0 n1
[ -x "$PROGS/mpi_file" ] || { say "no Open MPI headers: without MPI-IO"; exit 0; }
# ROMIO by two programs (their arguments differ): one makes the file, and the other joins it.
MPIRUN_ARGS=()
JOB_ENV+=(OMPI_MCA_io=romio321)
clean_ssd
job_ok 40 1@n0 "$PROGS/mpi_file" "$SSD/f" at 100 20 0 -- 1@n1 "$PROGS/mpi_file" "$SSD/f" at 100 20 0 1
grep -q '2 ranks, 0 bad' "$OUT" || fail "two programs: $(cat "$OUT")"
