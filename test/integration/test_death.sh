#!/bin/bash
# Ranks that die while the launcher keeps the job: what they were home to, what they owned, who waited for them.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
MPIRUN_ARGS=(--enable-recovery)
X=$PROGS/xfer
EHOSTUNREACH=113

# What a rank does to end as rank 3 does: once the test says so.
cat >"$WORK/rank.sh" <<'END'
await() { until [ -e "$WORK/$1" ]; do sleep 0.05; done; }
reached() { : >"$WORK/$1.$PMIX_RANK"; }
# The member is this shell: a guest of it must not take its place.
die() { reached dying; kill -"$1" $$; sleep 60; }
END
JOB_ENV+=(DYAD_INLINE_MAX=0) # small files, too, are where their owner is
JOB_ENV+=("WORK=$WORK" "SSD=$SSD" "X=$X")
reached() {
    local rank
    for rank in "${@:2}"; do
        until_true 30 "rank $rank reaches $1" test -e "$WORK/$1.$rank"
    done
}
go() { : >"$WORK/$1"; }
next() { rm -f "$WORK"/[a-z]*.[0-9] "$WORK"/go.*; : >"$LOG"; }
# took NAME SECONDS: within its bound.
took() {
    local seconds
    seconds=$(cat "$WORK/$1")
    say "$1: $seconds s"
    awk "BEGIN {exit !($seconds <= $2)}" || fail "$1 took $seconds s, more than $2 s"
}

# One of five ranks is killed: homes move, waiters move, everybody else goes on. What it owned is gone: an open says
# so within the bound, in one line. With the default bounds.
next
job_begin 120 2@n0 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    "$X" write -d "$SSD" -p "live.$r" -n 40
    reached written
    await go.on
    "$X" read -d "$SSD" -p late -n 40 -t 8 & # they wait at homes of which one dies
    reached waiting
    await go.dead
    "$X" read -d "$SSD" -p live.2 -n 40 || exit 4
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p lost -E '$EHOSTUNREACH' || exit 5
    echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$WORK/first.$r"
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p lost -E '$EHOSTUNREACH' || exit 6
    echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$WORK/again.$r"
    wait $! || exit 7' -- \
    2@n1 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    "$X" write -d "$SSD" -p "live.$r" -n 40
    reached written
    await go.dead
    "$X" read -d "$SSD" -p live.0 -n 40 || exit 4
    await go.late
    [ "$r" = 3 ] || "$X" write -d "$SSD" -p late -n 40' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    "$X" write -d "$SSD" -p lost -n 2
    reached written
    await go.die
    die KILL'
reached written 0 1 2 3 4
go go.on
reached waiting 0 1
go go.die
reached dying 4
go go.dead
sleep 2
go go.late
job_end_ok 120
took first.0 12
took again.0 3
[ "$(grep -c 'lost.000000.* cannot be fetched: its owner, rank 4 on node n2' "$LOG")" = 4 ] ||
    fail "$(grep -c 'cannot be fetched' "$LOG") lines for 4 opens that name the file, owner and node"
clean_ssd
JOB_ENV+=(DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)

# The owner dies in the middle of a fetch; the file is nowhere else.
next
job_begin 60 1@n0 bash -c '. "$WORK/rank.sh"
    await go.read
    begin=$EPOCHREALTIME
    DYAD_TIMEOUT=0 "$X" read -d "$SSD" -p large -E '$EHOSTUNREACH' || exit 5
    echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$WORK/broken.0"' -- \
    1@n1 bash -c '. "$WORK/rank.sh"
    "$X" write -d "$SSD" -p large -s 400000000
    reached written
    await go.die
    die SEGV'
reached written 1
go go.read
until_true 20 "the fetch has begun" node_exec n0 sh -c '[ -n "$(find "$1/.dyad/tmp" -type f -size +1000k)" ]' _ "$SSD"
go go.die
job_end_ok 60
took broken.0 6
[ -z "$(node_exec n0 sh -c 'ls "$1" | grep large' _ "$SSD")" ] || fail "part of a file has its name"
clean_ssd

# The producer that all wait for dies before it has written, and nobody else could: not an endless wait.
next
job_begin 60 2@n0,n1 bash -c '. "$WORK/rank.sh"
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p never -E 2 || exit 5
    echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$WORK/never.$PMIX_RANK"' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    echo >"$SSD/other"
    sleep 1
    die KILL'
job_end_ok 60
took never.0 12
grep -q 'never.000000.*nobody is left' "$LOG" || fail "no line says why"
