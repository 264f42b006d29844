#!/bin/bash
# Opens that can only have what is there, for reading and writing (O_RDWR without O_CREAT): gfortran's, Python's "r+",
# fstream's, HDF5's. They wait for what is not there yet, and for the end of who makes it on their own node. Those of
# a library that looks before it makes a file do not, nor those of processes that write one file together.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun gfortran h5import h5copy h5clear ncgen perl
[ -n "$PYTHON" ] || skip "needs python3"
gfortran -o "$WORK/forms" "$TEST_DIR/integration/progs/forms.f90"
export forms="formatted unformatted stream direct" actions="- read readwrite"

cat >"$WORK/read.py" <<'EOT'
import ctypes, os, sys
how, path = sys.argv[1:]
if how == "r+":
    text = open(path, "r+").read()
elif how == "fileno":
    fd = ctypes.CDLL(None, use_errno=True).syscall(2 if os.uname().machine == "x86_64" else 56, *(
        (path.encode(), os.O_RDWR) if os.uname().machine == "x86_64" else (-100, path.encode(), os.O_RDWR)))
    text = os.read(fd, 100000).decode()
else:
    top = os.open(os.path.dirname(os.path.dirname(path)), os.O_RDONLY)
    text = os.read(os.open("d/" + os.path.basename(path), os.O_RDWR, dir_fd=top), 100000).decode()
print(text, end="")
EOT
# Read all that is made, each by a process of its own; `ended` says how many have, for whatever reason.
cat >"$WORK/readers" <<'EOT'
node=$1
reader() { # NAME COMMAND...
    local name=$1
    shift
    {
        "$@" >"$WORK/out.$node.$name" 2>"$WORK/err.$node.$name" && : >"$WORK/good.$node.$name"
        echo "$node $name" >>"$WORK/ended"
    } &
    echo >>"$WORK/begun.$node"
}
: >"$WORK/begun.$node"
for form in $forms; do
    for action in $actions; do
        reader $form.$action "$WORK/forms" read $form "$DYAD_PATH/d/$form" ${action#-}
    done
done
for how in r+ fileno openat; do
    reader python.$how "$PYTHON" "$WORK/read.py" $how "$DYAD_PATH/d/text"
done
reader fstream "$PROGS/updater" "$DYAD_PATH/d/text"

reader perl perl -e 'open F, "+<", shift or die "$!"; print <F>' "$DYAD_PATH/d/text"
reader shell sh -c 'cat <"$0"' "$DYAD_PATH/d/text"
reader h5 h5clear --status "$DYAD_PATH/d/table.$node.h5" # which it changes
wait
EOT
cat >"$WORK/waiting.py" <<'EOT'
import json, sys
print(sum(len(s.get("waiting", ())) for s in json.load(sys.stdin)["shards"]))
EOT
cat >"$WORK/maker" <<'EOT'
# All readers are blocked or at their end.
settled() { # COUNT
    local waiting
    until waiting=$("$BIN/dyad-dht-dump" --json --waiting 2>/dev/null | "$PYTHON" "$WORK/waiting.py" 2>/dev/null) &&
        [ $((waiting + $(wc -l <"$WORK/ended"))) -ge "$1" ]; do sleep 0.1; done
}
count=$((4 * 3 + 7))
until [ -e "$WORK/begun.b" ] && [ "$(wc -l <"$WORK/begun.b")" -eq $count ]; do sleep 0.05; done
settled $count
[ ! -s "$WORK/ended" ] || echo "did not wait for what is not there: $(tr "\n" " " <"$WORK/ended")" >>"$WORK/bad"
# Who looks before he makes a file does not wait, though others could make it.
cd "$WORK" && h5import table.txt -d 400,50 -p raw/table -t TEXTIN -s 32 -o "$DYAD_PATH/made.h5" &&
    h5copy -i "$DYAD_PATH/made.h5" -o "$DYAD_PATH/copied.h5" -p -s /raw/table -d /other/place &&
    ncgen -k nc4 -o "$DYAD_PATH/made.nc" table.cdl || echo "HDF5" >>"$WORK/bad"
! perl -e 'exit !truncate shift, 1' "$DYAD_PATH/none" || echo "truncate" >>"$WORK/bad"
mkdir "$DYAD_PATH/d"
for form in $forms; do
    mkfifo "$WORK/go.$form"
    "$WORK/forms" write $form "$DYAD_PATH/d/$form" "$WORK/half.$form" <"$WORK/go.$form" &
    exec {fd}>"$WORK/go.$form"
    until [ -e "$WORK/half.$form" ]; do sleep 0.05; done
    go+=($fd)
done
# In the shell that the readers are no children of.
exec 3>"$DYAD_PATH/d/text" 4>"$DYAD_PATH/d/table.a.h5" 5>"$DYAD_PATH/d/table.b.h5"
head -c 1000 "$WORK/text" >&3
for fd in 4 5; do head -c 3000 "$WORK/table.h5" >&$fd; done
: >"$WORK/half"
until [ -e "$WORK/begun.a" ] && [ "$(wc -l <"$WORK/begun.a")" -eq $count ]; do sleep 0.05; done
settled $((2 * count))
[ ! -s "$WORK/ended" ] || echo "did not wait for the end of who makes it: $(tr "\n" " " <"$WORK/ended")" >>"$WORK/bad"
tail -c +1001 "$WORK/text" >&3
for fd in 4 5; do tail -c +3001 "$WORK/table.h5" >&$fd; done
exec 3>&- 4>&- 5>&-
for fd in "${go[@]}"; do
    echo >&$fd
    exec {fd}>&-
done
wait
EOT

"$PYTHON" -c 'print("\n".join(" ".join(str(r * 50 + c) for c in range(50)) for r in range(400)))' >"$WORK/table.txt"
echo 'netcdf t { dimensions: x = 3; variables: int a(x); data: a = 1, 2, 3; }' >"$WORK/table.cdl"
(cd "$WORK" && h5import table.txt -d 400,50 -p raw/table -t TEXTIN -s 32 -o table.h5)
seq 1000 >"$WORK/text"
: >"$WORK/ended"
JOB_ENV+=("WORK=$WORK" "PYTHON=$PYTHON" "PROGS=$PROGS" "BIN=$BIN" "forms=$forms" "actions=$actions" DYAD_LOG=warn)
say "gfortran, Python, fstream, perl, HDF5"
local_job 50 1@a bash "$WORK/maker" -- 1@b bash "$WORK/readers" b -- \
    1@a bash -c 'until [ -e "$WORK/half" ]; do sleep 0.05; done; . "$WORK/readers" a' readers ||
    fail "status $?; $(cat "$WORK/bad" 2>/dev/null)"
[ ! -s "$WORK/bad" ] || fail "$(cat "$WORK/bad")"
for node in a b; do
    good=$(find "$WORK" -name "good.$node.*" | wc -l)
    [ "$good" -eq 19 ] || fail "node $node: only $good of 19 readers: $(tail -n 3 "$WORK"/err.$node.*)"
    for name in python.r+ python.fileno python.openat fstream perl shell; do
        cmp "$WORK/text" "$WORK/out.$node.$name" || fail "$name on node $node"
    done
done

# Opens that come as another program of their node makes the file.
cat >"$WORK/make.py" <<'EOT'
import os, sys, time
flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if sys.argv[1] == "t" else 0)
for i in range(150):
    fd = os.open(f"{os.environ['DYAD_PATH']}/{sys.argv[1]}{i}", flags, 0o644)
    time.sleep(0.003) # as long it is half written
    os.write(fd, b"0123456789")
    os.close(fd)
EOT
cat >"$WORK/take.py" <<'EOT'
import os, sys
short = 0
for i in range(150):
    fd = os.open(f"{os.environ['DYAD_PATH']}/{sys.argv[1]}{i}", os.O_RDWR)
    short += os.read(fd, 20) != b"0123456789"
    os.close(fd)
sys.exit(f"{short} of 150 files were opened half written" if short else 0)
EOT
say "opens at the moment the file is made"
local_job_ok 30 1@e "$PYTHON" "$WORK/make.py" t -- 1@e "$PYTHON" "$WORK/take.py" t -- \
    1@e "$PYTHON" "$WORK/make.py" n -- 1@e "$PYTHON" "$WORK/take.py" n

# Processes of one program, and those of several that have a whole file open, do not wait for each other.
cat >"$WORK/share.py" <<'EOT'
import errno, os, signal, subprocess, sys
os.chdir(os.environ["DYAD_PATH"])

def child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def add(i):
    with open("slices", "r+b") as f:
        f.seek(4 * i)
        f.write(b"abcd")
        f.flush()
        assert i == 3 or child(lambda: add(i + 1)) == 0 # the younger while the elder has it open

with open("slices", "w+b") as f: # the workers while their parent makes it
    f.write(bytes(16))
    f.flush()
    assert child(lambda: add(0)) == 0
assert open("slices", "rb").read() == b"abcd" * 4
with open("slices", "r+b") as f: # a stranger, while two have it open
    with open("slices", "r+b"):
        assert subprocess.run([os.environ["PROGS"] + "/updater", "slices"], stdout=subprocess.DEVNULL, timeout=20).returncode == 0
# The other end of a pipe is a child's, but what it is told to read an ancestor is making.
with open("own", "w") as f:
    f.write("half")
    f.flush()
    assert subprocess.run([os.environ["PROGS"] + "/updater", "own"], capture_output=True, timeout=20).stdout == b"half"

def killed():
    os.write(os.open("killed", os.O_WRONLY | os.O_CREAT, 0o644), b"half")
    os.kill(os.getpid(), signal.SIGKILL)
child(killed)
for name in "killed", "none":
    try:
        open(name, "r+")
        sys.exit(f"{name} is there")
    except OSError as e:
        assert e.errno == int(sys.argv[1]), e
assert child(lambda: open("killed", "a+").write("more")) == 0 # it may make it: it never waits
EOT
say "one program, strangers, a killed writer"
local_job_ok 30 1@c "$PYTHON" "$WORK/share.py" 2 # nobody is left: ENOENT
rm -r "$WORK/dmd.c"
JOB_ENV+=(DYAD_TIMEOUT=0.3)
local_job_ok 30 1@c sh -c '"$PYTHON" "$WORK/share.py" 110; status=$?; : >"$WORK/over"; exit $status' -- \
    1@d sh -c 'until [ -e "$WORK/over" ]; do sleep 0.05; done' # ETIMEDOUT: rank d could make it

if [ -x "$PROGS/mpi_shared" ]; then
    say "MPI ranks that write one file"
    JOB_ENV+=(DYAD_TIMEOUT=10)
    dmd=$(dmd_of m)
    for io in ompio romio321; do
        JOB_ENV+=(OMPI_MCA_io=$io)
        local_job_ok 30 3@m "$PROGS/mpi_shared" mpiio "$dmd/mpiio.$io"
    done
    local_job_ok 30 3@m "$PROGS/mpi_shared" posix "$dmd/posix"
    # Ranks with arguments of their own.
    local_job_ok 30 1@m "$PROGS/mpi_shared" mpiio "$dmd/different" 0 -- 1@m "$PROGS/mpi_shared" mpiio "$dmd/different" 1
fi
