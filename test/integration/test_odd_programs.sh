#!/bin/bash
# What programs seldom do, on two nodes: links to a file that is still being written, ".." behind a directory that is
# not here, questions about the file system, watches, a jump out of an open that waits.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun perl gcc cmp
[ -n "$PYTHON" ] || skip "needs python3"
JOB_ENV+=(DYAD_TIMEOUT=30 "DYAD_WAIT=late/*" DYAD_LOG=warn "WORK=$WORK" "PYTHON=$PYTHON")

cat >"$WORK/make.py" <<'EOT'
import os

def linked(first, second, then=lambda: None):
    f = open(first, "w")
    f.write("a")
    f.flush()
    os.link(first, second)
    then()
    f.write("b")
    f.close()

os.mkdir("d")
linked("both.1", "both.2")
linked("second.0", "second.1", lambda: os.unlink("second.0"))
linked("moved.0", "moved.1", lambda: os.rename("moved.0", "moved.2"))
linked("d/renamed.0", "renamed.0", lambda: (os.unlink("d/renamed.0"), os.rename("renamed.0", "renamed.1")))
linked("twice.1", "twice.2", lambda: os.link("twice.2", "twice.3"))
# Two descriptions: what the first close publishes is not complete.
f = open("shared.1", "w")
linked("shared.1", "shared.2", lambda: f.write("A"))
f.close()
# A name that is another file by the time of the close.
linked("other.1", "other.2", lambda: (os.unlink("other.2"), open("other.2", "w").write("ab")))
EOT
cat >"$WORK/ask.py" <<'EOT'
import ctypes, os, sys

os.statvfs("s/f")
os.statvfs("s/x")
assert os.pathconf("s/f", "PC_NAME_MAX") == 255
libc = ctypes.CDLL(None, use_errno=True)
assert libc.statfs(b"s/f", ctypes.create_string_buffer(512)) == 0
for gone in (os.statvfs, lambda name: os.pathconf(name, "PC_NAME_MAX")):
    try:
        gone("s/none")
        sys.exit("s/none is there")
    except FileNotFoundError:
        pass
watch = libc.inotify_init()
assert libc.inotify_add_watch(watch, b"s/watched", 8) > 0 # IN_CLOSE_WRITE
assert libc.inotify_add_watch(watch, b"s/none", 8) == -1
open("s/watched", "a").write("b")
assert len(os.read(watch, 4096)) >= 16
EOT
cat >"$WORK/jump.c" <<'EOT'
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static sigjmp_buf back;

static void jump(int number)
{
    siglongjmp(back, number);
}

/* An alarm ends an open that waits; then the program goes on as if nothing had been. */
int main(void)
{
    int fd;

    signal(SIGALRM, jump);
    for (int i = 0; i < 3; i++) {
        if (sigsetjmp(back, 1) == 0) {
            ualarm(200000, 0);
            open("late/never", O_RDONLY);
            return 1;
        }
    }
    fd = open("jumped", O_WRONLY | O_CREAT, 0644);
    return fd < 0 || write(fd, "ab", 2) != 2 || close(fd) < 0;
}
EOT
gcc -o "$WORK/jump" "$WORK/jump.c"

cat >"$WORK/n0" <<'EOT'
set -e
cd "$DYAD_PATH"
"$PYTHON" "$WORK/make.py"
# By other processes than the writer.
exec 3>shell.1 && printf a >&3 && ln shell.1 shell.2 && rm shell.1 && printf b >&3 && exec 3>&-
mkdir -p s/x/y && printf ab >s/f && printf ab >s/x/g && printf a >s/watched && ln -s x s/l && printf a >s/more
: >"$WORK/made"
until [ -e "$WORK/waits" ]; do sleep 0.05; done
sleep 0.3
mkdir -p late/x/y && printf ab >late/f
until [ -e "$WORK/read" ]; do sleep 0.05; done
for f in s/more s/x/new jumped; do
    [ "$(cat $f)" = ab ] || { echo "$f" >>"$WORK/bad"; }
done
EOT
cat >"$WORK/n1" <<'EOT'
cd "$DYAD_PATH"
is_ab() {
    [ "$("$@" 2>&1)" = ab ] || echo "$*: $("$@" 2>&1)" >>"$WORK/bad"
}
{ is_ab cat late/x/y/../../f; } &
"$WORK/jump" || echo "jump" >>"$WORK/bad"
: >"$WORK/waits"
until [ -e "$WORK/made" ]; do sleep 0.05; done
"$PYTHON" "$WORK/ask.py" || echo "ask.py" >>"$WORK/bad"
for f in both.1 both.2 second.1 moved.1 moved.2 renamed.1 twice.1 twice.2 twice.3 other.1 other.2 shell.2; do
    is_ab cat $f
done
cmp shared.1 shared.2 || echo shared >>"$WORK/bad"
for f in second.0 moved.0 renamed.0 d/renamed.0 shell.1; do
    [ ! -e $f ] || echo "$f is there" >>"$WORK/bad"
done
is_ab cat s/x/../f
is_ab sh -c 'cat <s/x/y/../../f'
is_ab cat s/l/y/../g
is_ab perl -e 'open F, "<", "s/x/y/../../x/g" or die "$!"; print <F>'
printf b >>s/x/y/../../more || echo append >>"$WORK/bad"
printf ab >s/l/y/../new || echo new >>"$WORK/bad"
! cat s/none/../f 2>/dev/null || echo "s/none/.. is followed" >>"$WORK/bad"
wait
: >"$WORK/read"
EOT
status=0
(local_job_ok 40 1@n0 bash "$WORK/n0" -- 1@n1 bash "$WORK/n1") || status=1
JOBS=1
[ ! -s "$WORK/bad" ] || fail "not as in one directory: $(tr '\n' ';' <"$WORK/bad")"
[ $status -eq 0 ] || exit 1
