#!/bin/bash
# The next files of a series are brought before they are asked for, also when each open finds its file here; what is
# rewritten, withdrawn, larger than the space or never published meanwhile; two readers of a node; that nobody is left.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
JOB_ENV+=(DYAD_PREFETCH=auto DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_STATS=1 "W=$WORK")
A=$(dmd_of a) B=$(dmd_of b)

# In the background, without the library: `here.NAME` is made when NAME is on node b's disk; and `gone.NAME`.
watch() {
    local name
    for name; do
        until [ -e "$B/$name" ]; do sleep 0.01; done
        : >"$WORK/here.$name"
    done
}
watch_gone() {
    until [ -e "$WORK/here.$1" ] && [ ! -e "$B/$1" ]; do sleep 0.01; done
    : >"$WORK/gone.$1"
}
watching() {
    "$@" &
    BACKGROUND+=($!)
}
anew() {
    rm -rf "$A" "$B" "$WORK"/{here,gone}.* "$WORK"/{written,read,changed,begun}* && : >"$LOG"
}
# The line of a rank's counts has that in it.
counts() {
    grep "rank $1.*statistics:" "$LOG" | grep -q "$2" || fail "rank $1: not \"$2\": $(grep statistics: "$LOG")"
}

# From the fourth on each file is here when it is opened, so no open asks the member; and the last ones never come. When
# that is known nobody is left who could publish `never`, although names are still looked for.
frames=$(printf 'frame.%04d ' {4..20})
# shellcheck disable=SC2086
watching watch $frames
local_job_ok 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for i in {0001..0020}; do echo "frame $i" >frame.$i; done; made written' -- \
    1@b bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
    for i in {0001..0020}; do
        [[ $i < 0004 ]] || wait_for here.frame.$i
        [ "$(cat frame.$i)" = "frame $i" ] || exit 3
    done
    ! cat never 2>"$W/never" || exit 4'
grep -q 'No such file' "$WORK/never" || fail "the wait for what nobody publishes: $(cat "$WORK/never")"
counts 1 'prefetched 17 files, 17 of them were opened, 0 bytes were not'

# Rewritten and withdrawn after they were brought: the open has what is published. Too large: fetched by its open.
anew
watching watch g.4.h5 g.5.h5
watching watch_gone g.5.h5
local_job_ok 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for i in 1 2 3 4 5; do echo "old $i" >g.$i.h5; done
    head -c 3000000 /dev/zero >g.6.h5; made written; wait_for here.g.4.h5; wait_for here.g.5.h5
    echo "new" >g.4.h5; rm g.5.h5; made changed; wait_for read' -- \
    1@b env DYAD_PREFETCH_BYTES=1M bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
    for i in 1 2 3; do [ "$(cat g.$i.h5)" = "old $i" ] || exit 3; done
    wait_for changed
    [ "$(cat g.4.h5)" = new ] || exit 4
    wait_for gone.g.5.h5; [ ! -e g.5.h5 ] || exit 5
    [ "$(ls)" = "$(printf "%s\n" g.{1,2,3,4,6}.h5)" ] || exit 6
    [ "$(wc -c <g.6.h5)" = 3000000 ] || exit 7
    made read'
counts 1 'prefetched 2 files, 0 of them were opened, 12 bytes were not'

# Larger than a tenth of what is free: not brought, and nobody hears of it.
anew
if [ "$(id -u)" = 0 ] && mkdir -p "$B" && mount -t tmpfs -o size=24m tmpfs "$B" 2>/dev/null; then
    trap 'umount "$B" 2>/dev/null; finish' EXIT
    watching watch s.3
    status=0
    local_job 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
        for i in 1 2 3; do echo "$i" >s.$i; done; head -c 3000000 /dev/zero >s.4; made written; wait_for read' -- \
        1@b bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
        cat s.1 s.2 s.3 >/dev/null; wait_for here.s.3; sleep 0.3; made read; exit 0' || status=$?
    umount "$B"
    trap finish EXIT
    [ $status -eq 0 ] || fail "with a full disk: status $status"
    ! grep -E '(error|warn).*s\.4' "$LOG" || fail "a prefetch complains"
    counts 1 'prefetched 0 files'
fi

# Two ranks of a node read the same series, each from another place on (what is here already asks nobody, and does not
# count for a series), until both are at the same files: what is brought comes once.
anew
# shellcheck disable=SC2046
watching watch $(printf 't.%d ' {4,5} {9..12})
local_job_ok 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for i in {1..12}; do head -c 100000 /dev/zero >t.$i; done; made written; wait_for read.1; wait_for read.2' -- \
    2@b bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
    fits() {
        for i; do [ "$(wc -c <t.$i)" = 100000 ] || exit 3; done
    }
    if [ $PMIX_RANK = 1 ]; then
        fits 1 2 3; wait_for here.t.4; wait_for here.t.5; made begun.1; wait_for begun.2; fits 4 5 6 7 8
    else
        wait_for begun.1; fits 6 7 8; wait_for here.t.9; wait_for here.t.10; made begun.2
    fi
    for i in {9..12}; do wait_for here.t.$i; fits $i; done
    made read.$PMIX_RANK'
counts 0 'served 1200000 bytes'

# A reader that does not pause opens what is just on its way, and joins that: each file comes once, with its own bytes.
anew
local_job_ok 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for i in {1001..1100}; do yes $i | head -c 3000000 >v.$i; done; made written; wait_for read' -- \
    1@b env DYAD_CHUNK_SIZE=256K bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
    for i in {1001..1100}; do cmp v.$i <(yes $i | head -c 3000000) || exit 3; done
    made read'
counts 0 'served 300000000 bytes'

# Off: nothing is brought.
anew
local_job_ok 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"; for i in {1..8}; do echo $i >u.$i; done; made written; wait_for read' -- \
    1@b env DYAD_PREFETCH=off bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"
    for i in 1 2 3 4; do [ "$(cat u.$i)" = $i ] || exit 3; done; made read'
counts 1 'prefetched 0 files'
[ ! -e "$B/u.5" ] || fail "DYAD_PREFETCH=off, and u.5 was brought"

# Patterns: what matches is brought whenever it is published, also what was there before the reader; and no series.
anew
watching watch p.1.h5 p.2.h5
local_job_ok 60 2@a bash -c "$RANK"'cd "$DYAD_PATH"
    if [ $PMIX_RANK = 0 ]; then
        echo one >p.1.h5; echo no >p.1.txt; made written; wait_for here.p.1.h5; echo two >p.2.h5
    else
        wait_for written; for i in 1 2 3 4 5; do echo $i >u.$i; done; made u
    fi; wait_for read' -- \
    1@b env DYAD_PREFETCH='h5/*:p*.h5' bash -c "$RANK"'cd "$DYAD_PATH"; wait_for here.p.2.h5; wait_for u
    [ "$(cat p.2.h5)" = two ] || exit 3
    for i in 1 2 3; do [ "$(cat u.$i)" = $i ] || exit 4; done
    cat p.2.h5 >/dev/null # the first open may have come before the member has set its watch
    made read'
counts 2 'prefetched 2 files, 1 of them were opened, 4 bytes were not'
[ ! -e "$B/u.4" ] && [ ! -e "$B/p.1.txt" ] || fail "what does not match was brought"
