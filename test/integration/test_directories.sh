#!/bin/bash
# Directories, links and attributes on three nodes: what one makes the others list, walk, follow,
# rename and remove as on a shared file system. One launch, in steps that all nodes take together.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3

cat >"$WORK/rank" <<'EOF'
#!/bin/bash
# rank WORK PYTHON: the part of rank $PMIX_RANK in each step.
work=$1 python=$2 step=0 bad=0
cd "$DYAD_PATH" || exit 1

# All ranks are through with the step.
together() {
    local rank
    step=$((step + 1))
    : >"$work/at.$step.$PMIX_RANK"
    for rank in 0 1 2; do
        until [ -e "$work/at.$step.$rank" ]; do sleep 0.02; done
    done
}
# on RANK...: is this one of them?
on() {
    case " $* " in *" $PMIX_RANK "*) return 0 ;; esac
    return 1
}
# is WHAT EXPECTED COMMAND...
is() {
    local what=$1 expected=$2 got
    shift 2
    got=$("$@" 2>&1) || true
    [ "$got" = "$expected" ] && return
    bad=1
    printf 'rank %s, step %s: %s:\n  got      %q\n  expected %q\n' "$PMIX_RANK" "$step" "$what" "$got" "$expected"
}
fails() {
    local what=$1 message=$2 got
    shift 2
    if got=$("$@" 2>&1); then
        bad=1
        echo "rank $PMIX_RANK, step $step: $what: succeeded"
    elif [[ $got != *"$message"* ]]; then
        bad=1
        echo "rank $PMIX_RANK, step $step: $what: $got"
    fi
}

# 1: a reader that is ahead of the link and of what it leads to.
if on 2; then
    cat early/link >"$work/early.link" &
    cat early/dirlink/f >"$work/early.dirlink" &
fi
together
if on 0; then
    mkdir early early/d
    ln -s target early/link
    ln -s d early/dirlink
    for i in 1 2 3 4; do ln -s d early/unseen$i; done
    mkdir -p tree/a/b tree/empty
    echo one >tree/one
    echo three >tree/a/b/three
    ln -s a/b/three tree/link
    ln -s a tree/dirlink
    ln -s nowhere tree/dangling
    echo mode >mode
    mkdir old
    echo 0 >old/of0
fi
together
if on 1; then
    sleep 0.2
    echo target >early/target
    echo dirlink >early/d/f
    # In directories that another node has made.
    echo two >tree/a/two
    mkdir tree/c
    echo four >tree/c/four
    echo 1 >old/of1
    echo one >only1
fi
together

# 2: listed and walked, where nothing of it is here.
files='tree
tree/a
tree/a/b
tree/a/b/three
tree/a/two
tree/c
tree/c/four
tree/dangling
tree/dirlink
tree/empty
tree/link
tree/one'
if on 2; then
    wait
    is "link, followed before it was there" target cat "$work/early.link"
    is "directory link, followed before it was there" dirlink cat "$work/early.dirlink"
    is "stat below a directory link that nobody has followed" 8 stat -c %s early/unseen1/f
    is "test -e below such a link" "" bash -c '[ -e early/unseen2/f ] || echo no'
    is "test -e of what is not there" "" bash -c '! [ -e early/unseen3/none ] || echo there'
    is "readlink below such a link" "readlink: early/unseen4/f: Invalid argument" readlink -v early/unseen4/f
    is "ls" $'a\nc\ndangling\ndirlink\nempty\nlink\none' ls tree
    is "ls -A of the top" $'early\nmode\nold\nonly1\ntree' ls -A
    is "test -d, -f, -h, -e" "" bash -c '[ -d tree/a ] && [ -d tree/empty/ ] && [ -f tree/a/two ] &&
        [ -f tree/link ] && [ -h tree/link ] && [ -h tree/dangling ] && ! [ -e tree/dangling ] &&
        ! [ -e tree/no ] && [ -d tree/dirlink ] && [ -f tree/dirlink/two ] || echo no'
    is "readlink" $'a/b/three\na\nnowhere' readlink tree/link tree/dirlink tree/dangling
    is "realpath" "$DYAD_PATH/tree/a/b/three" realpath tree/dirlink/b/../../link
    is "ls -l" $'drwxr-xr-x  a\ndrwxr-xr-x  c\nlrwxrwxrwx  dangling\nlrwxrwxrwx  dirlink\ndrwxr-xr-x  empty\nlrwxrwxrwx  link\n-rw-r--r-- 4 one' \
        bash -c 'ls -l tree | awk "NR > 1 {print \$1, /^-/ ? \$5 : \"\", \$9}"'
    is "python3" "$(sort <<<"$files")" "$python" -E -c '
import glob, os, pathlib
a = sorted(glob.glob("tree", recursive=True) + [n for n in glob.glob("tree/**", recursive=True) if n != "tree/"])
b = ["tree"]
for top, dirs, names in os.walk("tree"):
    b += [os.path.join(top, n) for n in dirs + names]
c = ["tree"] + [str(p) for p in pathlib.Path("tree").rglob("*")]
d = {e.name: (e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False), e.is_symlink()) for e in os.scandir("tree")}
assert sorted(b) == sorted(c), (b, c)
assert d["a"] == (True, False, False) and d["one"] == (False, True, False) and d["link"] == (False, False, True), d
assert set(a) - set(b) == {"tree/dirlink/b", "tree/dirlink/b/three", "tree/dirlink/two"} or set(a) <= set(b), a
print("\n".join(sorted(b)))'
    is "find" "$files" bash -c 'find tree | sort'
    is "find -type f, -links" $'tree/a/b/three\ntree/a/two\ntree/c/four\ntree/one' bash -c 'find tree -type f -links 1 | sort'
    is "a pattern of the shell's" "tree/a/b/three tree/dirlink/b/three" bash -c 'echo tree/*/b/t*'
    # Nothing was fetched up to here.
    is "what is here" "" env -u LD_PRELOAD find tree -type f
    is "tar" $'four\nthree\ntwo\none' bash -c 'tar cf - tree | tar xOf - tree/c/four tree/a/b/three tree/a/two tree/one | sort -r |
        awk "{n[\$0] = 1} END {print \"four\"; print \"three\"; print \"two\"; print \"one\"}"'
    is "tar's names" "$files" bash -c 'tar cf - tree | tar tf - | sed "s,/\$,," | sort'
    is "cat" $'one\ntwo\nthree' cat tree/one tree/dirlink/two tree/link
fi
together

# 3: attributes after the publish.
if on 0; then
    chmod 444 mode
    touch -d @1000000000 mode
    chmod 750 tree/empty
fi
together
if on 1 2; then
    is "chmod and touch elsewhere" "444 1000000000" stat -c '%a %Y' mode
    is "its content" mode cat mode
    is "and of the copy" "444 1000000000" stat -c '%a %Y' mode
fi
on 1 2 && is "chmod of a directory elsewhere" 750 stat -c %a tree/empty
together
on 1 && chmod 600 mode # of what is a copy here
together
# The file that a node has made stays, out of date, until the newest is here: an open waits for that, stat does not.
on 0 && cat mode >/dev/null
on 0 2 && is "chmod of a copy" 600 stat -c %a mode
together
if on 0; then
    chmod u+w mode
    echo again >mode
    chmod 444 mode
fi
together
on 1 2 && is "a read-only file, published twice" "again 444" bash -c 'echo $(<mode) $(stat -c %a mode)'
together

# A file that gets its name while it is open; a name that is taken elsewhere.
if on 0; then
    is "O_TMPFILE and linkat" "" "$python" -E -c '
import os
here = os.open(".", os.O_RDONLY)
try: fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
except OSError: fd = os.open("unnamed", os.O_CREAT | os.O_RDWR, 0o644)
os.write(fd, b"one ")
if not os.path.exists("unnamed"):
    os.link("/proc/self/fd/%d" % fd, "unnamed", src_dir_fd=here, follow_symlinks=True)
os.write(fd, b"two")
os.close(fd)'
    echo 0 >moving
    is "mv -n over a file elsewhere" "" mv -n moving only1
fi
together
on 1 2 && is "a file without a name at first" "one two" cat unnamed
on 0 && is "mv -n left it" $'0\none' cat moving only1
together
on 1 && is "mv replaces a file elsewhere" "" mv unnamed moving
together
on 0 2 && is "replaced" "one two" cat moving
together
on 0 && rm moving
together

# 4: removed and renamed.
on 0 && fails "rmdir of what has a file elsewhere" "not empty" rmdir tree/c
on 2 && fails "mkdir of what is there" "exists" mkdir tree/c
together
on 2 && mv old new
together
if on 0 1 2; then
    is "a renamed directory" $'0\n1' cat new/of0 new/of1
    fails "its old name" "No such file" ls old
    fails "a file by its old name" "No such file" stat old/of1
fi
together
if on 0; then
    mkdir side
    echo s >side/s
    echo both >side/of0
    is "directories exchanged" 0 "$python" -E -c '
import ctypes
print(ctypes.CDLL(None).renameat2(-100, b"side", -100, b"new", 2))'
fi
together
on 1 2 && is "exchanged" $'new:\nof0\ns\n\nside:\nof0\nof1\nboth\n0' bash -c 'ls new side; cat new/of0 side/of0'
together
on 2 && is "rm -r of directories of others" "" rm -r side
on 1 && rm -r tree
together
on 0 2 && fails "a removed tree" "No such file" ls tree
on 0 2 && is "what is left" $'early\nmode\nnew\nonly1' ls
together

# 5: who waits below a directory that is here, when a link takes its place or the place of one above it.
on 0 && mkdir -p wait/a wait/b/in wait/c/in
together
if on 1; then
    is "the directories" $'wait/a\nwait/b/in\nwait/c/in' ls -d wait/a wait/b/in wait/c/in
    mkdir wait/own
    for name in a/f b/in/f c/in/f own/f; do
        cat "wait/$name" >"$work/below.${name%%/*}" &
    done
    sleep 0.4
    rmdir wait/own
    ln -s other wait/own
fi
together
if on 0; then
    rmdir wait/a
    mkdir wait/other
    ln -s other wait/a
    echo other >wait/other/f
fi
if on 2; then
    mv wait/b wait/b2
    ln -s b2 wait/b
    echo b2 >wait/b2/in/f
    rmdir wait/c/in
    ln -s ../b2/in wait/c/in
fi
together
if on 1; then
    wait
    is "waits below directories that became links" $'other\nb2\nb2\nother' cat "$work"/below.{a,b,c,own}
fi

# 6: chmod of what is just being published.
if on 0; then
    is "chmod at once" "" env DYAD_WAIT=none "$python" -E -c '
import os, random, threading, time
random.seed(1)
for i in range(150):
    def chmod(name):
        end = time.perf_counter() + random.random() * 4e-4
        while time.perf_counter() < end: pass
        os.chmod(name, 0o710)
    def begin(fn, *args):
        go = threading.Event()
        def run():
            go.set()
            fn(*args)
        thread = threading.Thread(target=run)
        thread.start()
        go.wait()
        return thread
    name = "now.f%d" % i
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, b"x")
    thread = begin(os.close, fd)
    chmod(name)
    thread.join()
    name = "now.d%d" % i
    thread = begin(os.mkdir, name)
    while True:
        try:
            chmod(name)
            break
        except FileNotFoundError: pass
    thread.join()'
fi
together
on 1 && is "their permissions" "    300 710" bash -c 'stat -c %a now.* | sort | uniq -c'
together
exit $bad
EOF
chmod +x "$WORK/rank"
JOB_ENV+=(DYAD_TIMEOUT=20)
job_ok 40 3@n0,n1,n2 "$WORK/rank" "$WORK" "$PYTHON"

# Without listings a directory shows what is here; names are looked up all the same.
clean_ssd
rm -f "$WORK"/at.*
cat >"$WORK/unlisted" <<'EOF'
#!/bin/bash
cd "$DYAD_PATH" || exit 1
if [ "$PMIX_RANK" = 0 ]; then
    mkdir d
    echo x >d/f
    echo y >f
    : >"$1/made"
    until [ -e "$1/seen" ]; do sleep 0.02; done
    rmdir d 2>/dev/null && exit 1
    exit 0
fi
until [ -e "$1/made" ]; do sleep 0.02; done
[ -z "$(ls -A)" ] || { echo "a listing: $(ls -A)"; exit 1; }
[ -d d ] && [ "$(cat d/f)" = x ] && [ "$(ls)" = d ] || { echo "$(ls -l)"; exit 1; }
: >"$1/seen"
EOF
chmod +x "$WORK/unlisted"
JOB_ENV+=(DYAD_LISTING=off)
job_ok 30 2@n0,n1 "$WORK/unlisted" "$WORK"
