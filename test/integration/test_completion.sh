#!/bin/bash
# Files that a close does not complete: readers on the writer's node and on others wait until the writers are at their exit, or
# until nobody may write the file any more; who writes it reads it meanwhile.
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 2
cat >"$WORK/case.py" <<'EOT'
import os, signal, subprocess, sys, time
W, SSD, me, case = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"]), sys.argv[1]
path = f"{SSD}/{sys.argv[2]}"

def flag(name):
    open(f"{W}/flag.{name}", "x").close()

def wait(*names):
    for name in names:
        while not os.path.exists(f"{W}/flag.{name}"):
            time.sleep(0.005)

def append(text):
    with open(path, "a") as f:
        f.write(text)

def reader(timeout=60):
    return subprocess.Popen(["cat", path], env=dict(os.environ, DYAD_TIMEOUT=str(timeout), LC_ALL="C"),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

def reads(want, by=None):
    out, err = (by or reader()).communicate()
    assert out == want, (case, me, out, err)

def not_yet():
    out, err = reader(0.5).communicate()
    assert out == b"" and b"timed out" in err, (case, me, out, err)

def comes_to(want):
    by = reader()
    flag(f"asks.{me}")
    reads(want, by)
    flag(f"has.{me}")
    ok()

def ok():
    open(f"{W}/ok.{me}", "x").close()

def hold():
    "Until all read it, as a process that is not at its exit."
    wait("has.1", "has.2")

# Rank 0 and rank 1 are on one node, rank 2 is on another.
if me == 0:
    append("one,")
    if case == "renamed":
        os.rename(path, path + ".log")
        flag("a")
        hold()
        sys.exit(0)
    flag("a")
    wait("late.1", "late.2")
    reads(b"one,")
    append("two,")
    if case == "neighbour":
        flag("b")
        wait("c")
    if case == "others":
        flag("b")
        wait("c")
        comes_to(b"one,two,three,")
        hold()
        sys.exit(0)
    wait("asks.1", "asks.2")
    if case == "chmod":
        os.chmod(path, 0o444)
        hold()
    elif case == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
else:
    wait("a")
    if case == "renamed":
        path += ".log"
        comes_to(b"one,")
        sys.exit(0)
    not_yet()
    flag(f"late.{me}")
    if case == "neighbour":
        # Who has it open for writing, and changes nothing, does not end it for the other ranks of its node.
        wait("b")
        if me == 1:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT))
            flag("d")
        wait("d")
        not_yet()
        flag(f"late.again.{me}")
        if me == 1:
            wait("late.again.2")
            flag("c")
        comes_to(b"one,two,")
    elif case == "others":
        # The writer on another node goes on, and ends it for both.
        wait("b")
        if me == 2:
            append("three,")
            flag("d")
            wait("late.again")
            os.chmod(path, 0o444)
            flag("c")
        else:
            wait("d")
            not_yet()
            flag("late.again")
        comes_to(b"one,two,three,")
        wait("has.0")
    else:
        comes_to(b"one,two,")
EOT
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=3 'DYAD_COMPLETE_AT_EXIT=*.log:out/*' 'DYAD_COMPLETE_AT_CHMOD=*.seal')
one() { # CASE FILE RANKS-THAT-COME-TO-THE-END
    clean_ssd
    rm -f "$WORK"/flag.* "$WORK"/ok.*
    job_killed 60 "$3" 1@n0 "$PYTHON" "$WORK/case.py" "$1" "$2" -- 1@n0 "$PYTHON" "$WORK/case.py" "$1" "$2" -- \
        1@n1 "$PYTHON" "$WORK/case.py" "$1" "$2"
    say "$1 $2"
}
one renamed a '1 2'
one exit a.log '1 2'
one chmod a.seal '1 2'
one exit b.seal '1 2'
one others c.seal '0 1 2'
one neighbour b.log '1 2'
one killed c.log '1 2'
