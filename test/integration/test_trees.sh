#!/bin/bash
# Ranks that are trees of processes: who writes or reads is a child, a grandchild, an exec'ed program, a daemon; a child
# that is killed with the last descriptor; and what a guest is: no thread and no library of the member's.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun make xargs setsid cmp
[ -n "$PYTHON" ] || skip "needs python3"
HERE=$SOURCE_DIR/test/integration/progs
JOB_ENV+=(DYAD_TIMEOUT=30 "IN=$WORK/in" "WORK=$WORK" "HERE=$HERE" "PYTHON=$PYTHON")
seq -f 'line %g' 1 900 >"$WORK/in"

# One file of Python's steps, as a program that is exec'ed.
cat >"$WORK/app.py" <<'EOT'
import sys
with open(sys.argv[1], "w") as out:
    out.write(open(sys.argv[2]).read())
EOT
# nest.sh LEVEL: each level writes after those below it.
cat >"$WORK/nest.sh" <<'EOT'
[ "$1" -eq 0 ] || sh "$0" $(($1 - 1)) || exit 1
cp "$IN" "nest.$1"
EOT
cat >"$WORK/rules" <<'EOT'
all: m.sum
m.%:
	@cp $(IN) $@
m.sum: m.1 m.2 m.3 m.4 m.5 m.6 m.7 m.8
	@cat $^ | cmp - $(WORK)/eight && cp $(IN) $@
EOT
for i in 1 2 3 4 5 6 7 8; do cat "$WORK/in"; done >"$WORK/eight"

# rank | program, run by bash -c in the managed directory of n0 | the files that it makes, each a copy of $IN
cat >"$WORK/ranks" <<'EOT'
list | cp $IN l.1; cat $IN \| cat >l.2; cat $IN >l.3 & wait | l.1 l.2 l.3
exec_at_once | exec "$PYTHON" "$WORK/app.py" exec.1 "$IN" | exec.1
exec_later | cp $IN exec.2; sleep 2; exec "$PYTHON" "$WORK/app.py" exec.3 "$IN" | exec.2 exec.3
exec_chain | exec sh -c 'cp $IN exec.4; exec env A=b nice sh -c "cp \$IN exec.5; exec cp \$IN exec.6"' | exec.4 exec.5 exec.6
idle_first | sh -c '(exec timeout 20 sh -c "sleep 0.2; cat \$IN >idle.1"); true'; sh -c 'setsid -w cp $IN idle.2' | idle.1 idle.2
xargs | seq 1 24 \| xargs -P 4 -I{} cp "$IN" x.{} | x.1 x.2 x.7 x.12 x.13 x.23 x.24
make | make -s -j 4 -f "$WORK/rules" | m.1 m.5 m.8 m.sum
nest | sh "$WORK/nest.sh" 8 | nest.0 nest.1 nest.4 nest.8
daemon | setsid sh -c '(sleep 0.5; cat "$IN" >d.1; cp "$IN" d.2) &' </dev/null >/dev/null 2>&1; cp "$IN" d.3 | d.1 d.2 d.3
daemon_only | setsid sh -c '(sleep 0.5; cp "$IN" d.4) &' </dev/null >/dev/null 2>&1 | d.4
left_running | (sleep 0.7; cp "$IN" d.5) & | d.5
siblings | cat s.1 >s.2 & sh -c 'sleep 0.3; cp "$IN" s.1' & wait | s.1 s.2
siblings_apps | "$PYTHON" "$WORK/app.py" s.4 s.3 & sleep 0.3; "$PYTHON" "$WORK/app.py" s.3 "$IN" & wait | s.3 s.4
EOT
cat >"$WORK/consume" <<'EOT'
# Everything, by children of each kind, while it is being written.
sed 's/.*|//' "$WORK/ranks" | tr ' ' '\n' | sed /^$/d >"$WORK/files"
xargs -n 3 -P 4 sh -c 'for f; do cmp "$IN" "$f" || echo "$f" >>"$WORK/bad"; done' _ <"$WORK/files"
(sh -c '{ cat x.3 x.4 | cat - x.5; } >answer')
sed 's/^/all: /; s/ x\.[0-9]*/&.got/g' <<<"$(echo x.{14..21})" >"$WORK/reading"
echo '%.got: ; @cmp $(IN) $*' >>"$WORK/reading"
make -s -j 3 -f "$WORK/reading" || echo "make -j" >>"$WORK/bad"
[ ! -s "$WORK/bad" ]
EOT

# Launch 1: all of the table, one rank each.
job=()
while IFS= read -r line; do
    line=${line//\\|/$'\001'}
    IFS='|' read -r name program files <<<"$line"
    program=${program//$'\001'/|}
    job+=(1@n0 bash -c "cd \"\$DYAD_PATH\" || exit; $program" --)
    [ -n "$files" ] || fail "table: $name"
done <"$WORK/ranks"
job+=(1@n1 bash -c 'cd "$DYAD_PATH" && . "$WORK/consume"')
status=0
(local_job_ok 45 "${job[@]}") || status=1
JOBS=1
[ ! -s "$WORK/bad" ] || say "not as written: $(tr '\n' ' ' <"$WORK/bad")"
[ $status -eq 0 ] || exit 1
say "$(wc -l <"$WORK/ranks") trees"

# Launch 2: Python's ways. In the same one: children that are killed with the last descriptor of a file.
cat >"$WORK/killed" <<'EOT'
cd "$DYAD_PATH"
for how in KILL SEGV TERM; do
    bash -c 'head -n 300 "$IN"; kill -$0 $$' $how >"again.$how" 2>/dev/null
    bash -c 'head -n 300 "$IN"; kill -$0 $$' $how >"never.$how" 2>/dev/null
    # A child that was killed is not the last: the group has the file still.
    { bash -c 'head -n 300 "$IN"; kill -$0 $$' $how; tail -n +301 "$IN"; } >"group.$how" 2>/dev/null
done
# Somebody is waiting for these by now; nobody has been given a part of them.
until [ -e "$WORK/waiting" ]; do sleep 0.05; done
sleep 0.3
[ ! -s "$WORK/bad" ] || exit 1
for how in KILL SEGV TERM; do
    cp "$IN" "again.$how"
done
for how in KILL SEGV TERM; do
    # Nor does a process of this node take a part for the whole.
    ! cat "never.$how" >"$WORK/got.$how" 2>/dev/null || exit 1
    [ ! -s "$WORK/got.$how" ] || exit 1
done
EOT
cat >"$WORK/killed_reader" <<'EOT'
cd "$DYAD_PATH"
for how in KILL SEGV TERM; do
    (cmp "$IN" "again.$how" || echo "again.$how" >>"$WORK/bad") &
    (cmp "$IN" "group.$how" || echo "group.$how" >>"$WORK/bad") &
    (! cat "never.$how" >>"$WORK/got_part" 2>>"$WORK/never.err" || echo "never.$how" >>"$WORK/bad") &
    # Who reads from a pipe of somebody that waits is no more able to go on than that.
    (cat "never.$how" 2>>"$WORK/never.err" | sort | cat >>"$WORK/got_part") &
done
: >"$WORK/waiting"
wait
[ ! -s "$WORK/bad" ] && [ ! -s "$WORK/got_part" ]
EOT
status=0
(local_job_ok 45 1@n0 sh -c 'cd "$DYAD_PATH" && exec "$PYTHON" "$HERE/trees.py" produce "$IN"' -- \
    1@n1 sh -c 'cd "$DYAD_PATH" && exec "$PYTHON" "$HERE/trees.py" consume "$IN"' -- \
    1@n0 bash "$WORK/killed" -- 1@n1 bash "$WORK/killed_reader") || status=1
JOBS=2
[ ! -s "$WORK/bad" ] || say "not as it must be: $(tr '\n' ' ' <"$WORK/bad")"
[ $status -eq 0 ] || exit 1
[ "$(grep -o "No such file" "$WORK/never.err" | wc -l)" -eq 6 ] || fail "readers of abandoned files: $(cat "$WORK/never.err")"
say "Python's ways, killed writers"
