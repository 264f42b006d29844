#!/bin/bash
# Two nodes write one file. What would be lost is said: the later close fails, no open gets half of it on any node,
# each node keeps its own, and the file is as any other when it was removed or made anew. Where nothing is lost nobody
# is told: files that each node only makes sure of, turns, closes without a change, one that gives way to the other's.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
cat >"$WORK/steps.py" <<'EOT'
import errno, os, sys, tempfile, time
W, SSD, me = os.environ["W"], os.environ["SSD"], int(sys.argv[1])

def sync(name):
    """All three are there."""
    open(f"{W}/flag.{name}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/flag.{name}.{r}") for r in range(3)):
        time.sleep(0.002)

def fails(number, fn, *args):
    try:
        fn(*args)
    except OSError as e:
        assert e.errno == number, (fn, args, e)
    else:
        raise AssertionError(f"{fn} {args} did not fail with {errno.errorcode[number]}")

def path(name):
    return f"{SSD}/{name}"

def put(name, flags, text):
    fd = os.open(path(name), flags | os.O_RDWR, 0o644)
    os.write(fd, text.encode())
    return fd

def put_unrecorded(name, flags, text):
    """By a call that is not recorded, so it cannot be put together."""
    fd = os.open(path(name), flags | os.O_RDWR, 0o644)
    with tempfile.TemporaryFile(dir=os.environ["W"]) as f:
        f.write(text.encode())
        f.flush()
        assert os.sendfile(fd, f.fileno(), 0, len(text)) == len(text)
    return fd

def is_text(name, text):
    with open(path(name)) as f:
        have = f.read()
    assert have == text, (name, have, text)

def together(name, flags, first, second, at="", put=put):
    """Ranks 0 and 1 have it open at once; rank 0 closes first. Returns when both have, with rank 1's errno."""
    texts, result = {0: first, 1: second}, None
    fd = put(name, flags, texts[me]) if me in texts else None
    sync(f"{name}.open{at}")
    if me == 0:
        os.close(fd)
    sync(f"{name}.first{at}")
    if me == 1:
        result = 0
        try:
            os.close(fd)
        except OSError as e:
            result = e.errno
    sync(f"{name}.both{at}")
    return result

small, large = "x" * 100, "y" * 100000
for size, text in ("small", small), ("large", large):
    # Both make it; both change one that was published.
    for kind in "new", "old":
        name = f"{kind}.{size}"
        if kind == "old":
            if me == 2:
                os.close(put(name, os.O_CREAT | os.O_EXCL, text))
            sync(f"{name}.made")
        result = together(name, os.O_CREAT, "a" + text, "b" + text, put=put_unrecorded)
        assert result in (None, errno.EIO), result
        for how in os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND | os.O_CREAT:
            fails(errno.EIO, os.open, path(name), how)
        sync(f"{name}.failed")
        # Mended by one, on whatever node.
        again = {"new.small": 0, "old.small": 1, "new.large": 2, "old.large": 0}[name]
        if me == again:
            if kind == "old":
                os.remove(path(name))
            os.close(put(name, os.O_CREAT | os.O_TRUNC, "again"))
        sync(f"{name}.again")
        is_text(name, "again")
        sync(f"{name}.read")

# Nor is it changed by its name, or given another one.
assert together("kept", os.O_CREAT, "0", "1", put=put_unrecorded) in (None, errno.EIO)
fails(errno.EIO, os.utime, path("kept"), (1, 1))
fails(errno.EIO, os.chmod, path("kept"), 0o600)
fails(errno.EIO, os.rename, path("kept"), path("moved"))
fails(errno.EIO, os.link, path("kept"), path("linked"))
fails(errno.EIO, os.truncate, path("kept"), 1)
fails(errno.EIO, open, path("kept"))
sync("kept.failed")
if me == 2:
    os.remove(path("kept"))
sync("kept.removed")
fails(errno.ENOENT, open, path("kept"))

# One has it open, unchanged, while another changes it: what changes it by its name does not wait for that descriptor.
for how in "chmod", "utime", "rename", "link":
    name = f"held.{how}"
    if me == 2:
        os.close(put(name, os.O_CREAT, "old"))
    sync(f"{name}.made")
    fd = os.open(path(name), os.O_RDWR) if me == 0 else None
    sync(f"{name}.held")
    if me == 1:
        os.close(put(name, 0, "new"))
    sync(f"{name}.changed")
    args = {"chmod": (0o600,), "utime": ((1, 1),)}.get(how, (path("elsewhere"),))
    if me == 0:
        fails(errno.EBUSY, getattr(os, how), path(name), *args)
        os.close(fd)
        getattr(os, how)(path(name), *args)
    sync(f"{name}.closed")
    is_text("elsewhere" if how in ("rename", "link") else name, "new")
    sync(f"{name}.read")
    if me == 0 and how == "rename":
        os.remove(path("elsewhere"))
    sync(f"{name}.end")

# Two descriptions of one node, and one of another: none of the first node's is lost to it.
if me == 0:
    one, two = put_unrecorded("three", os.O_CREAT, "11"), put_unrecorded("three", 0, "22")
    os.close(one)
    os.close(two)
sync("three.made")
is_text("three", "22")
sync("three.read")
assert together("three", 0, "3", "4", put=put_unrecorded) in (None, errno.EIO)
fails(errno.EIO, open, path("three"))

# Turns, on copies of each other's files.
for turn in range(6):
    if turn % 3 == me:
        os.close(put("turns", os.O_CREAT | os.O_APPEND, str(turn)))
    sync(f"turn.{turn}")
is_text("turns", "012345")

# Several descriptions of one node, of which the later ones find what the first has written by then: they began from the
# same. So does who takes over from a process that was killed.
for name, first, second in (("adds", os.O_APPEND, os.O_APPEND), ("changes", 0, os.O_APPEND), ("empties", os.O_TRUNC, os.O_APPEND),
                            ("both", os.O_APPEND, 0)):
    if me == 2:
        os.close(put(name, os.O_CREAT | os.O_TRUNC, "01234567"))
    sync(f"{name}.made")
    if me == 0:
        one = put(name, first, "one")
        two = put(name, second, "two")
        os.close(two)
        os.close(one)
    sync(f"{name}.closed")
    is_text(name, {"adds": "01234567onetwo", "changes": "one34567two", "empties": "onetwo", "both": "two34567one"}[name])
    sync(f"{name}.read")
if me == 2:
    os.close(put("killed", os.O_CREAT | os.O_TRUNC, "01234567"))
sync("killed.made")
is_text("killed", "01234567")
sync("killed.copied")
if me == 0:
    pid = os.fork()
    if pid == 0:
        put("killed", 0, "half")
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    os.close(put("killed", os.O_CREAT | os.O_APPEND, "over"))
sync("killed.closed")
is_text("killed", "half4567over")
sync("killed.read")

# Only made sure of, by all; then one writes it.
os.close(os.open(path("touched"), os.O_CREAT | os.O_WRONLY, 0o644))
sync("touched")
is_text("touched", "")
sync("touched.read")
if me == 2:
    os.close(put("touched", 0, "here"))
sync("touched.written")
is_text("touched", "here")

# One writes it, and another that has it open since before does not: its close is the later one.
assert together("given", os.O_CREAT, "data", "") in (None, 0)
is_text("given", "data")
sync("given.read")
assert together("given", 0, "DATA", "", "again") in (None, 0)
is_text("given", "DATA")
# ... the other way round.
assert together("filled", os.O_CREAT, "", "data") in (None, 0)
is_text("filled", "data")

# Both make it anew: the later close is the file.
assert together("anew", os.O_CREAT | os.O_TRUNC, "first", "second") in (None, 0)
is_text("anew", "second")
# ... unless it has not all that the other has, which was written after both had emptied it: it is shorter, or a part.
for name, texts, apart in ("shorter", (b"the first", b"second"), 0), ("part", (b"first", b"second"), 1 << 20):
    fd = os.open(path(name), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644) if me < 2 else None
    sync(f"{name}.emptied")
    time.sleep(0.2)  # more than the clocks of nodes may differ by
    if me < 2:
        os.pwrite(fd, texts[me], me * apart)
    sync(f"{name}.written")
    if me == 0:
        os.close(fd)
    sync(f"{name}.first")
    if me == 1:
        fails(errno.EIO, os.close, fd)
    sync(f"{name}.both")
    fails(errno.EIO, os.open, path(name), os.O_RDONLY)
sync("end")
open(f"{W}/ok.{me}", "x").close()
EOT
JOB_ENV+=("W=$WORK" "SSD=$SSD")
job_ok 100 1@n0 "$PYTHON" "$WORK/steps.py" 0 -- 1@n1 "$PYTHON" "$WORK/steps.py" 1 -- 1@n2 "$PYTHON" "$WORK/steps.py" 2

# said NUMBER PATTERN: so many lines.
said() {
    local n
    n=$(grep -c -- "$2" "$LOG" || true)
    [ "$n" -eq "$1" ] || fail "$n lines instead of $1 say \"$2\""
}
for name in new.small old.small new.large old.large kept three shorter part; do
    said 2 "\"$name\" was written here and by rank .* at once"
done
said 1 '"anew" was published by .* while a process here had it open'
for name in turns touched given filled; do
    said 0 "\"$name\" was written here"
    said 0 "\"$name\" was published by"
done
