#!/bin/bash
# One storage that all nodes see: nothing is copied, and an open for reading waits for a writer on whatever node,
# as on one node. The nodes here share a kernel and could see one another's marks; with DYAD_SHARED_STORAGE=1, as
# on a network file system, each has a table of its own, so what is shown here is the protocol's doing.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
SSD=$WORK/shared
SYNC=$WORK/sync
BASE_ENV=("${JOB_ENV[@]}" DYAD_STATS=1 "SYNC=$SYNC" "D=$SSD")
rounds=60
[ $LEVEL != soak ] || rounds=1000

# What the ranks have in common: come and await are signals between nodes, past the managed directory.
cat >"$WORK/rank.sh" <<'RANK'
come() { : >"$SYNC/$1"; }
await() { until [ -e "$SYNC/$1" ]; do sleep 0.01; done; }
# slow NAME TEXT [STEPS]: a file of STEPS lines, with a pause after each; "NAME.begun" comes after the first.
slow() {
    for ((i = 0; i < ${3:-8}; i++)); do
        echo "$2 $i"
        [ $i != 0 ] || come "$1.begun"
        sleep 0.06
    done >"$D/$1"
}
# is TEXT LINES <file: a whole one
is() {
    n=0
    while read -r text i; do
        [ "$text $i" = "$1 $n" ] || { echo "line $n is '$text $i', not '$1 $n'" >&2; return 1; }
        n=$((n + 1))
    done
    [ $n = "$2" ] || { echo "$n lines of '$1', not $2" >&2; return 1; }
}
RANK

# run SECONDS SCRIPT...: each on a node of its own, from n0 on. A process is left behind each, so none execs.
run() {
    local seconds=$1 words=() i=0 script
    shift
    for script in "$@"; do
        [ $i -eq 0 ] || words+=(--)
        words+=("1@n$i" bash -euc "set -o pipefail; . '$WORK/rank.sh'; $script; :")
        i=$((i + 1))
    done
    rm -rf "$SYNC" && mkdir "$SYNC"
    : >"$LOG"
    job_ok "$seconds" "${words[@]}"
}

# Nothing was fetched, by whatever rank.
no_copies() {
    local line
    grep -q 'fetched 0 files' "$LOG" || fail "no statistics"
    ! grep 'statistics' "$LOG" | grep -v 'fetched 0 files (0 bytes), copied on the node 0' || fail "something was copied"
}

for mode in 1 auto; do
    JOB_ENV=("${BASE_ENV[@]}" "DYAD_SHARED_STORAGE=$mode")
    rm -rf "$SSD"
    mkdir "$SSD"
    if [ $mode = auto ]; then
        # It is found out when the nodes meet, and known from then on. Nothing else is in this job.
        run 30 'echo hello >"$D/hello"; await met' 'read -r text <"$D/hello"; [ "$text" = hello ]; come met'
        grep -q 'node n[01][^ ]* has the same storage below' "$LOG" || fail "the nodes do not see that they share a storage"
        [ "$(find "$SSD/.dyad" -name 'marks-*' | wc -l)" = 1 ] || fail "the nodes of one kernel could have one table"
    else
        # Staged before the job: no publish, no wait. And the table of marks is a node's own.
        for i in {1..20}; do echo "staged $i" >"$SSD/in.$i"; done
        run 30 'for i in {1..20}; do read -r text <"$D/in.$i"; [ "$text" = "staged $i" ]; done; touch "$D/out"' \
            'for i in {1..20}; do cat "$D/in.$i"; done | wc -l | grep -qx 20; [ -e "$D/out" ] || cat "$D/out"'
        [ "$(find "$SSD/.dyad" -name 'marks-*' | wc -l)" = 2 ] || fail "nodes have a table of marks in common"
        no_copies
    fi

    # Readers ahead of the writer, in its midst and after it; first of a new file, then of one that is there from
    # an earlier version. Writers and readers are guests (subshells, cat) and the member itself.
    run 60 'echo "unlike 0" >"$D/old"; come staged
            await ahead; (slow new first); slow old second; come done; await all' \
        'await staged; (come ahead; is first 8 <"$D/new")
         await old.begun; cat "$D/old" | is second 8
         await done; is first 8 <"$D/new"; come all' \
        'await new.begun; is first 8 <"$D/new"; await old.begun; is second 8 <"$D/old"; await done'
    no_copies

    # The same file, not another with the same bytes.
    run 30 'slow f inode 2; stat -c %i "$D/f" >"$SYNC/inode"; come there; await seen' \
        'await there; stat -L -c %i /dev/stdin <"$D/f" | cmp - "$SYNC/inode"; come seen'

    # Large, in parts that come one by one.
    run 90 'for i in {1..6}; do dd if=/dev/urandom bs=1M count=8 status=none; [ $i != 1 ] || come begun; sleep 0.05; done |
                tee "$D/large" | sha256sum >"$SYNC/sum"
            await read' \
        'await begun; sha256sum <"$D/large" >"$SYNC/got"; cmp "$SYNC/sum" "$SYNC/got"; come read'
    no_copies

    # Written anew by the nodes in turn; each round is read in the midst of its writing.
    # (That the storage is shared a rank knows when it has met the other.)
    rewrite='echo $me >"$D/met$me"; come met$me; await met$((1 - me)); [ "$(cat "$D/met$((1 - me))")" = $((1 - me)) ]
    for ((r = 0; r < '$rounds'; r++)); do
        if [ $((r % 2)) = $me ]; then
            { echo "round$r 0"; come r$r; sleep 0.01; echo "round$r 1"; } >"$D/again"; await seen$r
        else
            await r$r; is round$r 2 <"$D/again"; come seen$r
        fi
    done'
    run 120 "me=0; $rewrite" "me=1; $rewrite"
    no_copies

    # Appended by the nodes in turn: nothing is lost.
    append='for ((r = 0; r < 20; r++)); do
        if [ $((r % 2)) = $me ]; then echo "log $r" >>"$D/log"; come a$r; else await a$r; fi
    done
    is log 20 <"$D/log"'
    run 60 "me=0; $append" "me=1; $append"

    # Open for writing, and closed without a change: the earlier version is in force again.
    run 30 'slow kept kept 2; exec 3>>"$D/kept"; come open; sleep 0.3; come closing; exec 3>&-; await read' \
        'await open; is kept 2 <"$D/kept"; [ -e "$SYNC/closing" ]; come read'

    # Its name changes while it is open; and what is removed is gone.
    run 30 '{ echo "moved 0"; mv "$D/tmp" "$D/final"; come moved; sleep 0.3; echo "moved 1"; } >"$D/tmp"
            await read; rm "$D/final"; come removed; await end' \
        'await moved; is moved 2 <"$D/final"; [ ! -e "$D/tmp" ]; come read
         await removed; [ ! -e "$D/final" ]; come end'

    # A writer is killed: before a reader comes, and while one waits. Not complete until somebody writes it again.
    run 60 'echo "killed 0" >"$D/k1"; echo "killed 0" >"$D/k2"
            (echo "partial" >"$D/unlike"; exec 3>"$D/k1"; echo half >&3; kill -9 $BASHPID) || :
            come k1
            (exec 3>"$D/k2"; echo half >&3; come k2; await k2.asks; sleep 0.2; kill -9 $BASHPID) || :
            await k1.asks; sleep 1.5
            (slow k1 anew; slow k2 anew); await read' \
        'await k1; (come k1.asks; is anew 8 <"$D/k1") & one=$!
         await k2; (come k2.asks; is anew 8 <"$D/k2") & two=$!
         wait $one; wait $two; come read'
    [ "$(grep -c 'is abandoned: who was writing it, a process of rank 0 on node n0' "$LOG")" -ge 1 ] || fail "nobody says that it is abandoned"
    # And if nobody does, its reader is told so when nobody is left who could.
    run 60 'echo "killed 0" >"$D/k3"; (exec 3>"$D/k3"; echo half >&3; come k3; kill -9 $BASHPID) || :' \
        'await k3; ! cat "$D/k3" 2>"$SYNC/error"; grep -q "No such file" "$SYNC/error"'
    grep -q '"k3": nobody is left' "$LOG" || fail "the reader was not told why"
    no_copies
done

# DYAD_TIMEOUT bounds the wait, and the message says who is writing.
JOB_ENV=("${BASE_ENV[@]}" DYAD_SHARED_STORAGE=1 DYAD_TIMEOUT=1)
run 30 'echo x >"$D/slow"; exec 3>"$D/slow"; come open; await read' \
    'await open; ! cat "$D/slow" 2>"$SYNC/error"; grep -q "timed out" "$SYNC/error"; come read'
grep -q '"slow" was not published within .*: rank 0 on node n0 has it open for writing' "$LOG" ||
    fail "the reader was not told why: $(grep slow "$LOG")"

# Removed by a program that says nothing: after a while the reader is told, and gets what is written next.
JOB_ENV=("${BASE_ENV[@]}" DYAD_SHARED_STORAGE=1 DYAD_JOIN_TIMEOUT=1)
run 30 'echo x >"$D/lost"; LD_PRELOAD= rm "$D/lost"; come lost; await asks; sleep 2; slow lost anew; await read' \
    'await lost; (come asks; is anew 8 <"$D/lost"); come read'
grep -q 'has published "lost" in the storage of .*, where it has not been seen for' "$LOG" ||
    fail "the reader was not told that the file is gone"

# The whole rank of a writer dies. (Its reader asks again every five seconds.)
JOB_ENV=("${BASE_ENV[@]}" DYAD_SHARED_STORAGE=1)
MPIRUN_ARGS=(--mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0)
rm -rf "$SYNC" && mkdir "$SYNC"
job 60 1@n0 bash -euc ". '$WORK/rank.sh'; exec 3>\"\$D/dead\"; echo half >&3; come open; await asks; sleep 0.2; kill -9 \$\$" -- \
    1@n1 bash -euc ". '$WORK/rank.sh'; await open; (come asks; is anew 8 <\"\$D/dead\"); : >\"\$SYNC/got\"" -- \
    1@n2 bash -euc ". '$WORK/rank.sh'; await asks; sleep 6.5; slow dead anew; :" || :
[ -e "$SYNC/got" ] || fail "the reader did not get what was written after the death of a rank"
MPIRUN_ARGS=()

# 0: the user knows that nobody reads what is being written; nobody asks.
JOB_ENV=("${BASE_ENV[@]}" DYAD_SHARED_STORAGE=0)
rm -rf "$SSD" && mkdir "$SSD"
run 30 'echo "first" >"$D/f"; come there; await read' \
    'await there; read -r text <"$D/f"; [ "$text" = first ]; come read'
no_copies
