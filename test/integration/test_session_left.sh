#!/bin/bash
# A copy lies on a node where nobody lives that could be told of a newer version: who comes there next does not
# read it, however early it looks.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 2
MPIRUN_ARGS=() # a launch ends with a rank of it that is killed; but see below
SESSION=$WORK/session
JOB_ENV+=("W=$WORK" "SSD=$SSD" "P=$PRELOAD" DYAD_JOIN_TIMEOUT=3)
# are WHAT NAME...: the bytes of files of the managed directory, by one open each.
RANK+='are() { local what=$1 name got; shift; for name; do read -r got <"$SSD/$name"; [ "$got" = "$what" ] ||
    { echo "$name is \"$got\", not \"$what\"" >&2; return 1; }; done; }
'
flag() { until_true 30 "$1" test -e "$WORK/flag.$1"; }
part() {
    say "$*"
    rm -rf "$WORK"/flag.* "$SESSION"
    clean_ssd
}
names=$(printf 'f%d ' {0..19})

in_session() { JOB_ENV+=("DYAD_SESSION_DIR=$SESSION"); }
in_session

part 'the next launch, of one rank and of four, opens the files before its members have joined'
for ranks in 1 4; do
    rm -f "$WORK"/flag.*
    [ "$ranks" = 1 ] || clean_ssd
    launch 60 1@n0 bash -c "$RANK"'for n in '"$names"'; do echo old >"$SSD/$n"; echo same >"$SSD/same.$n"; done; made flag.old
        wait_for flag.killed; for n in '"$names"'; do echo new >"$SSD/$n"; done; made flag.new; wait_for flag.over'
    flag old
    ! job 30 1@n1 bash -c "$RANK"'are old '"$names"'; for n in '"$names"'; do are same "same.$n"; done; ulimit -c 0; kill -9 $$' ||
        fail "the reader was not killed"
    : >"$WORK/flag.killed"
    flag new
    [ "$(node_exec n1 cat "$SSD/same.f19")" = same ] && [ "$(node_exec n1 cat "$SSD/f19")" = old ] || fail "no outdated copy was left: there is nothing to see"
    launch 60 "$ranks@n1" bash -c "$RANK"'are new $(shuf -e '"$names"'); for n in '"$names"'; do are same "same.$n"; done
        made flag.read.$PMIX_RANK; wait_for flag.over'
    for ((r = 0; r < ranks; r++)); do flag read.$r; done
    : >"$WORK/flag.over" # who is at its exit waits for the others of the session
    launch_ends 1
    launch_ends 0
done

part 'a child looks first, and a second program of the rank when all is settled'
launch 60 1@n0 bash -c "$RANK"'echo old >"$SSD/f"; echo same >"$SSD/g"; made flag.old; wait_for flag.killed; echo new >"$SSD/f"; made flag.new; wait_for flag.over'
flag old
! job 30 1@n1 bash -c "$RANK"'are old f; are same g; ulimit -c 0; kill -9 $$' || fail "the reader was not killed"
: >"$WORK/flag.killed"
flag new
launch 60 1@n1 bash -c "$RANK"'[ "$(cat "$SSD/f")" = new ]; [ "$(cat "$SSD/g")" = same ]; made flag.read; wait_for flag.over; cat "$SSD/g"'
flag read
: >"$WORK/flag.over"
launch_ends 1
launch_ends 0

part 'who opens an outdated copy to append to it has the new one before it, or nothing'
launch 60 1@n0 bash -c "$RANK"'for n in a rw gone; do echo old >"$SSD/$n"; done; made flag.old; wait_for flag.killed
    for n in a rw; do echo new >"$SSD/$n"; done; rm "$SSD/gone"; made flag.new; wait_for flag.over
    for n in a rw; do [ "$(tr "\n" " " <"$SSD/$n")" = "new more " ]; done; [ "$(cat "$SSD/gone")" = more ]'
flag old
! job 30 1@n1 bash -c "$RANK"'are old a rw gone; ulimit -c 0; kill -9 $$' || fail "the reader was not killed"
: >"$WORK/flag.killed"
flag new
launch 60 1@n1 bash -c "$RANK"'echo more >>"$SSD/a"; exec 5<>"$SSD/rw"; read -r got <&5; [ "$got" = new ]; echo more >&5; exec 5>&-
    echo more >>"$SSD/gone"; made flag.over'
launch_ends 1
launch_ends 0

part 'a constructor of a library opens a copy while its process joins'
launch 60 1@n0 bash -c "$RANK"'echo old >"$SSD/f"; made flag.old; wait_for flag.over'
flag old
! job 30 1@n1 bash -c "$RANK"'are old f; ulimit -c 0; kill -9 $$' || fail "the reader was not killed"
status=0
job 40 1@n1 "$PROGS/opener" "$PROGS/opener_plugin.so" "$SSD/none" "$WORK/flag.none" late || status=$?
[ $status != 0 ] && [ $status != 124 ] && [ $status != 137 ] || fail "the open of what is not here, whose member waits for it: status $status"
grep -q 'of "none": .* waits for the library that is being loaded here' "$LOG" || fail "no word why it failed"
launch 30 1@n1 "$PROGS/opener" "$PROGS/opener_plugin.so" "$SSD/f" "$WORK/flag.begun"
flag begun
launch 30 1@n1 "$PROGS/opener" "$PROGS/opener_plugin.so" "$SSD/f" "$WORK/flag.over" late
flag over
grep -q '"f" is opened as it is: .* waits for the library that is being loaded here' "$LOG" || fail "the member has not waited"
launch_ends 1
launch_ends 2
launch_ends 0

part 'the only rank of the node is in exec'
INTO='exec env -u LD_PRELOAD sh -c '"'"': >"$W/flag.between"; until [ -e "$W/flag.new" ]; do sleep 0.02; done
    LD_PRELOAD=$P exec bash -c "cat \"\$SSD/f\" >\"\$W/flag.seen\"; : >\"\$W/flag.over\""'"'"
launch 60 1@n0 bash -c "$RANK"'echo old >"$SSD/f"; wait_for flag.between; echo new >"$SSD/f"; made flag.new; wait_for flag.over'
launch 60 1@n1 bash -c "$RANK"'are old f; '"$INTO"
launch_ends 1
launch_ends 0
[ "$(cat "$WORK/flag.seen")" = new ] || fail "the new image read \"$(cat "$WORK/flag.seen")\""

unset 'JOB_ENV[-1]'
MPIRUN_ARGS=(--enable-recovery)
part 'one launch: a rank of the node is killed, the other begins to share only then'
job_killed 40 "late" \
    1@n0 bash -c "$RANK"'echo old >"$SSD/f"; wait_for flag.killed; echo new >"$SSD/f"; made flag.new; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'are old f; made flag.killed; ulimit -c 0; kill -9 $$' -- \
    1@n1 bash -c "$RANK"'exec env -u LD_PRELOAD bash -c "$1" bash "$0"' "$RANK"'are new f; made ok.late; made flag.over' \
    "$RANK"'wait_for flag.new; LD_PRELOAD=$P exec bash -c "$1"'
MPIRUN_ARGS=()

part 'one launch: the only rank of the node is in exec'
launch 60 1@n0 bash -c "$RANK"'echo old >"$SSD/f"; wait_for flag.between; echo new >"$SSD/f"; made flag.new; [ "$(cat "$SSD/seen")" = new ]' -- \
    1@n1 bash -c "$RANK"'are old f; exec env -u LD_PRELOAD sh -c '"'"': >"$W/flag.between"; until [ -e "$W/flag.new" ]; do sleep 0.02; done
    LD_PRELOAD=$P exec bash -c "cat \"\$SSD/f\" >\"\$SSD/seen\""'"'"
launch_ends 0

part 'no session can be made: what lies here is opened as ever, and nothing waits for long'
JOB_ENV+=("DYAD_SESSION_DIR=$WORK/nowhere/session")
node_exec n1 sh -c 'echo here >"$1"' _ "$SSD/here"
begin=$SECONDS
launch 60 1@n1 bash -c "$RANK"'are here here; [ "$(cat "$SSD/here")" = here ]'
launch_ends 0
[ $((SECONDS - begin)) -lt 10 ] || fail "it took $((SECONDS - begin)) s"
