#!/bin/bash
# Who holds a file that its writer has closed: children before their exec, programs without the library,
# processes that are killed.
. "$(dirname "$0")/../cluster/lib.sh"
need perl
cluster_up 2

# Children of posix_spawn and vfork hold, for a moment, whatever is open.
FILES=400
[ $LEVEL != soak ] || FILES=4000
job_ok 60 1@n0 "$PROGS/spawn_storm" write "$SSD" $FILES -- \
    1@n1 env DYAD_TIMEOUT=20 "$PROGS/spawn_storm" read "$SSD" $FILES

# How a process ends that has a file open: published if it ended by itself, with what stdio has flushed then;
# abandoned if it was killed, also where another process had been the last but it to close it.
job_ok 60 1@n0 bash -c '
    cd "$1"
    for how in exit _exit quick_exit raw; do "$0/killed" $how $how; done
    for how in abort kill; do ( ulimit -c 0; "$0/killed" $how $how; true ); done 2>/dev/null
    # The shell has closed it, a child has not, and is killed.
    exec 6>held
    sleep 600 >&6 6>&- & child=$!
    exec 6>&-
    kill -9 $child
    wait $child
    # The same; the child has written its title over what it was started with.
    exec 6>titled
    perl -e "\$0 = q(x) x 30000; open(F, q(>), shift); close(F); sleep 600" "$2/titled" >&6 6>&- & child=$!
    until [ -e "$2/titled" ]; do sleep 0.02; done
    exec 6>&-
    kill -9 $child
    wait $child
    # A program without the library cannot tell us of its end.
    exec 5>foreign
    LD_PRELOAD= sh -c "touch \"$2/started\"; echo foreign; sleep 0.5; echo end" >&5 5>&- &
    until [ -e "$2/started" ]; do sleep 0.02; done
    exec 5>&-
    wait
    until grep -q killed "$3"; do sleep 0.02; done
    echo done >done' "$PROGS" "$SSD" "$WORK" "$LOG" -- \
    1@n1 bash -c '
    export DYAD_TIMEOUT=10
    cd "$0"
    cat done
    [ "$(cat exit)" = "$(printf "begin\nend")" ] || exit 1
    for how in _exit quick_exit raw; do [ "$(cat $how)" = begin ] || exit 2; done
    [ "$(cat foreign)" = "$(printf "foreign\nend")" ] || exit 3
    export DYAD_TIMEOUT=1
    for how in abort kill held titled; do ! cat $how 2>/dev/null || exit 4; done' "$SSD"
for name in held titled; do
    grep -q "\"$name\" is not published: process .*killed" "$LOG" || fail "nobody says who was killed that had $name open"
done

# A mapping that can be written holds its file, too.
job_ok 60 1@n0 "$PROGS/mapped" "$SSD" -- \
    1@n1 bash -c 'cd "$0"; for name in unmap to_end again cut; do [ "$(cat $name)" = new ] || { echo "$name is not right" >&2; exit 1; }; done' "$SSD"
