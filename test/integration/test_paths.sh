#!/bin/bash
# One file, whatever way leads to it: links from elsewhere, "..", descriptors; and programs that are executed where
# they were not made.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2

# Links outside of the managed directory, to it and to files in it. Nothing of that is there yet.
ln -s "$SSD" "$WORK/top"
ln -s "$SSD/sub" "$WORK/data"
ln -s data "$WORK/data2"
ln -s "$SSD/by-link" "$WORK/by-link"
ln -s "$SSD/written" "$WORK/written"

cat >"$WORK/producer" <<'S'
set -e
cd /
mkdir -p "$1/sub/deep" "$1/bin"
until [ -e "$2/go" ]; do sleep 0.05; done
echo 1 >"$2/data/one"                    # through a link
echo 2 >"$2/data2/../two"                # the parent of sub, not of data2
echo 3 >"$2/written"                     # the link is the last component
cd "$2/data"
echo 4 >four
echo 5 >../five
cd deep && echo 6 >../six
echo 7 >"$1//./sub/.././seven"
echo 8 >"$1/by-link"
exec 7>"$1/nine"
echo 9 >/dev/fd/7
exec 7>&-
cp /usr/bin/printf "$1/bin/printf"       # a program ...
{ chmod 755 "$1/bin/script"; printf '#!/bin/sh\necho script $1\n'; } >"$1/bin/script"
for name in a e; do                      # looked for, not waited for: before what is waited for
    cp "$1/bin/script" "$1/bin/s$name"
done
cp /bin/sh "$1/bin/interp"
{ chmod 755 "$1/bin/interpreted"; printf '#!%s/bin/interp\necho interpreted\n' "$1"; } >"$1/bin/interpreted"
for name in b c d f g; do cp "$1/bin/script" "$1/bin/s$name"; done
for i in $(seq 40); do cp /usr/bin/true "$1/bin/true$i"; done
exec 8>"$1/bin/late"                     # ... one that is there, and incomplete
printf '#!/bin/sh\necho lat' >&8 && chmod 755 "$1/bin/late"
until [ -e "$2/asked" ]; do sleep 0.05; done
echo e >&8
exec 8>&-
S

cat >"$WORK/consumer" <<'S'
set -e
cd /
(: >"$2/go")
for name in data/one top/sub/one; do echo $(cat "$2/$name"); done
echo $(cat "$2/data/../two") $(cat "$1/written") $(cat "$2/data2/four") $(cat "$2/top/five")
cd "$2/data"
echo $(cat six) $(cat ../seven)
echo $(cat "$2/by-link") $(cat "$1/nine")
exec 6<"$2/data" && cat /dev/fd/6/one
"$1/bin/printf" 'fork and exec\n'
"$1/bin/script" of bash
"$1/bin/interpreted"
[ -e "$1/bin/sa" ] && "$1/bin/sa" seen before
(cd "$1" && bin/sb relative)
(exec "$1/bin/sc" in place of the shell)
env "$1/bin/sd" by execvp
PATH=$1/bin:$PATH env se along PATH
"$3" -c 'import subprocess, sys; subprocess.run([sys.argv[1] + "/bin/sf", "by vfork"])' "$1"
"$3" -c 'import os, sys; os.waitpid(os.posix_spawn(sys.argv[1] + "/bin/sg", ["sg", "by posix_spawn"], os.environ), 0)' "$1"
S
cat >>"$WORK/consumer" <<'S'
for i in $(seq 40); do "$1/bin/true$i"; done # fetched a moment ago, and nobody has it open for writing
S
(: >"$WORK/asked")
job_ok 60 1@n0 bash "$WORK/producer" "$SSD" "$WORK" -- 1@n1 bash "$WORK/consumer" "$SSD" "$WORK" "$PYTHON"
diff - "$OUT" <<'S' || fail "the consumer read something else"
1
1
2 3 4 5
6 7
8 9
1
fork and exec
script of
interpreted
script seen
script relative
script in
script by
script along
script by vfork
script by posix_spawn
S

# A program that somebody is still writing, on its own node and on another: never "text file busy".
clean_ssd
rm -f "$WORK/asked" "$WORK/go"
: >"$WORK/go"
cat >"$WORK/runner" <<'S'
set -e
until [ -e "$1/bin/late" ]; do sleep 0.05; done
(sleep 0.3; : >"$2/asked") &
"$1/bin/late"
wait
S
cat >"$WORK/runner2" <<'S'
import os, subprocess, sys
subprocess.run([sys.argv[1] + "/bin/late"], close_fds=False) # vfork
assert os.system("exec " + sys.argv[1] + "/bin/sa member") == 0
S
job_ok 60 1@n0 bash "$WORK/producer" "$SSD" "$WORK" -- 1@n0 bash "$WORK/runner" "$SSD" "$WORK" -- \
    1@n1 "$PYTHON" "$WORK/runner2" "$SSD"
diff <(printf 'late\nlate\nscript member\n') <(sort "$OUT") || fail "a program that was being written ran as something else"

# What loses the library: --publish and --await of dyad-run stand in. A program that has left its root or its user keeps
# what it had open, and hears why the rest is not shared.
clean_ssd
mkdir "$WORK/jail"
cat >"$WORK/leaver" <<'S'
import os, sys
dmd, how, jail = sys.argv[1:]
early = open(dmd + "/early-" + how, "w")
early.write("early\n")
if how == "chroot":
    os.chroot(jail)
    early.close()
    open(dmd + "/after", "w") if os.path.isdir(dmd) else open("/after", "w")
else:
    os.setresuid(65534, 65534, 65534)
    try:
        early.close()
        sys.exit("a member of another user published it")
    except PermissionError:
        pass
S
cat >"$WORK/stripped" <<'S'
set -e
mkdir -p "$1/sub"
env -i /bin/sh -c 'echo stripped >"$0/sub/f"' "$1"
cd "$1" && "$2/dyad-run" --dmd "$1" --publish sub/f
"$4" "$3/leaver" "$1" chroot "$3/jail"
[ -e "$3/jail/after" ] && [ ! -e "$1/after" ]
[ "$5" != 0 ] || "$4" "$3/leaver" "$1" setuid -
"$2/dyad-run" --dmd "$1" --publish "$1/none" && exit 1
"$2/dyad-run" --dmd "$1" --await "$3/jail" && exit 1
[ $? -eq 1 ]
S
real_root=1
[ "$(id -u)" -ne 0 ] || real_root=0
job_ok 60 1@n0 bash "$WORK/stripped" "$SSD" "$BIN" "$WORK" "$PYTHON" $real_root -- \
    1@n1 bash -c '"$2/dyad-run" --dmd "$1" --await "$3/top/sub/f" "$1/early-chroot" && env -i cat "$1/sub/f" "$1/early-chroot" && :' - "$SSD" "$BIN" "$WORK"
diff <(printf 'stripped\nearly\n') "$OUT" || fail "the stripped programs read something else"
grep -q 'chroot to .*plain local files' "$ERR" || fail "chroot went without a word"
[ $real_root -ne 0 ] || grep -q 'serves no process of user 65534' "$ERR" "$LOG" || fail "setuid went without a word"
grep -q 'none: No such file' "$ERR" && grep -q 'jail: the path is not below' "$ERR" || fail "dyad-run did not say what failed"
