#!/bin/bash
# Odd but real programs: a table of producers, each a few lines of shell, and what a reader on
# the other node must see. All in one launch, two "nodes" on this machine by DYAD_NODE.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"

command -v mpirun >/dev/null || skip "no mpirun"
[ -n "$PYTHON" ] || skip "no python3"

mkdir "$WORK/a" "$WORK/b"

# name | program, run in the managed directory of the producer | file | its content (printf)
# Where a name begins with +, the file is published more than once: it is read after all else.
cat >"$WORK/table" <<'EOT'
redirect | echo one > f1 | f1 | one\n
group | { echo a; echo b; } > f2 | f2 | a\nb\n
exec_fd | exec 3> f3; echo x >&3; echo y >&3; exec 3>&- | f3 | x\ny\n
tee | echo teed \| tee f4 >/dev/null | f4 | teed\n
background | (echo bg > f5) & wait | f5 | bg\n
xargs | seq 1 8 \| xargs -P4 -I{} sh -c 'echo {} > x{}' | x8 | 8\n
+append | echo 1 > f6; echo 2 >> f6 | f6 | 1\n2\n
rename | echo t > tmp7; mv tmp7 f7 | f7 | t\n
empty | : > f8 | f8 |
+sed | echo foo > f9; sed -i s/foo/bar/ f9 | f9 | bar\n
+notrunc | printf aaaa > f10; printf b \| dd of=f10 bs=1 seek=1 conv=notrunc 2>/dev/null | f10 | abaa
closed_012 | (exec 0<&- 1>&- 2>&-; echo c > f11) | f11 | c\n
few_numbers | (ulimit -n 64; echo u > f12; true; sleep 0) | f12 | u\n
exec_end | (exec sh -c 'echo e > f13') | f13 | e\n
all_numbers | (ulimit -n 64; "$PYTHON" -c "$ALL_NUMBERS") | n0 | z
threads | "$PYTHON" -c "$THREADS" | t299 | 299
EOT
cat >"$WORK/env" <<'EOT'
# Open files until none can be opened, then close them: each is published.
ALL_NUMBERS='
files = []
try:
    while True: files.append(open("n%d" % len(files), "w"))
except OSError: pass
for f in files: f.write("z"); f.close()'
# The slots of marks go from thread to thread all the time.
THREADS='
import threading
def work(n):
    for i in range(n * 30, n * 30 + 30):
        with open("t%d" % i, "w") as f: f.write(str(i))
threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
for t in threads: t.start()
for t in threads: t.join()'
EOT
cat >"$WORK/rank" <<'EOF2'
#!/bin/bash
# rank produce|consume WORK
. "$2/env"
cd "$DYAD_PATH" || exit 1
bad=0
while IFS= read -r line; do
    line=${line//\\|/$'\001'}
    IFS='|' read -r name program file content <<<"$line"
    program=${program//$'\001'/|}
    if [ "$1" = produce ]; then
        eval "$program" || { echo "$name: exit status $?"; bad=1; }
        continue
    fi
    file=${file// /} content=${content# }
    [[ $name != +* ]] || : <done
    cmp -s "$file" <(printf "$content") || { echo "$name: $file is not as it was written"; bad=1; }
done <"$2/table"
if [ "$1" = produce ]; then
    : >done
else
    for ((i = 0; i < 300; i++)); do
        [ "$(<"t$i")" = "$i" ] || { echo "threads: t$i"; bad=1; }
    done
fi
exit $bad
EOF2
chmod +x "$WORK/rank"

both=(-x LD_PRELOAD="$LIB/libdyad_wrapper.so" -x DYAD_TIMEOUT=20 -x PYTHON="$PYTHON")
own_tmpdir "$WORK/mpi"
timeout -k 5 55 mpirun --oversubscribe "${OWN_TMPDIR[@]}" \
    -n 1 "${both[@]}" -x DYAD_PATH="$WORK/a" -x DYAD_NODE=n0 "$WORK/rank" produce "$WORK" : \
    -n 1 "${both[@]}" -x DYAD_PATH="$WORK/b" -x DYAD_NODE=n1 "$WORK/rank" consume "$WORK" \
    >"$WORK/job.1.out" 2>"$WORK/job.1.err" || fail "a program of the table: $?"
say "$(wc -l <"$WORK/table") programs"
