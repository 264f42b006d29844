#!/bin/bash
# Ranks that never join (not preloaded), and ranks that end early: all others work, and each of them waits for such ranks
# no longer than DYAD_JOIN_TIMEOUT, and once. Each operation is timed; the long ones are counted.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
# mpirun ends a job in which a rank ends without PMIx and others use it; told not to, it stays itself (as killed.sh has it).
. "$TEST_DIR/cluster/killed.sh"
cluster_up 3
[ "$PYTHON" ] || skip "needs python3"
JOIN=3 ROUNDS=50
# A read waits for the end of its publish.
JOB_ENV+=(DYAD_INLINE_MAX=0)
JOB_ENV+=("W=$WORK" "SSD=$SSD" "ROUNDS=$ROUNDS" "PYTHON=$PYTHON" DYAD_JOIN_TIMEOUT=$JOIN DYAD_PEER_TIMEOUT=1)

# work RANKS ROUNDS: each rank writes a file, reads that of the next, looks for absent names, and lists, in each round;
# so whatever homes the names have, they are asked. A line for each operation: its time.
cat >"$WORK/work.py" <<'END'
import errno, os, sys, time
ssd, ranks, rounds = os.environ['SSD'], [int(r) for r in sys.argv[1].split(',')], int(sys.argv[2])
me = int(os.environ['PMIX_RANK'])
peer = ranks[(ranks.index(me) + 1) % len(ranks)]
join = float(os.environ['DYAD_JOIN_TIMEOUT'])
start = time.monotonic()
log = open('%s/times.%d' % (os.environ['W'], me), 'w')

def timed(what, fn):
    begin = time.monotonic()
    fn()
    log.write('%s %.3f %.3f\n' % (what, time.monotonic() - begin, begin - start))
    log.flush()

def write(i):
    with open('%s/f.%d.%d' % (ssd, me, i), 'w') as f:
        f.write('%d %d' % (me, i))

def read(i):
    with open('%s/f.%d.%d' % (ssd, peer, i)) as f:
        text = f.read()
    assert text == '%d %d' % (peer, i), text

def absent(i):
    assert not os.path.exists('%s/absent.%d.%d' % (ssd, me, i))

def listing(i):
    try:
        assert 'f.%d.%d' % (peer, i) in os.listdir(ssd)
    except OSError as e: # while as many as there are homes may yet join it might not be whole
        assert e.errno == errno.EHOSTUNREACH and time.monotonic() - start < join + 1, e

for i in range(rounds):
    timed('write', lambda: write(i))
    timed('read', lambda: read(i))
    timed('absent', lambda: absent(i))
    timed('list', lambda: listing(i))
    time.sleep(0.1) # so that some of them come when all is over
END
WORKER='"$PYTHON" "$W/work.py" "$1" "$ROUNDS"; status=$?; : >"$W/done.$PMIX_RANK"; [ $status != 0 ] || : >"$W/ok.$PMIX_RANK"; exit $status'

# waits RANK...: operations that took longer than half a second. Together they may not be longer than one wait for such
# a rank; and when its time is over, there may be none.
waits() {
    local rank
    for rank in "$@"; do
        [ "$(wc -l <"$WORK/times.$rank")" = $((4 * ROUNDS)) ] || fail "rank $rank did $(wc -l <"$WORK/times.$rank") of $((4 * ROUNDS)) operations"
        say "rank $rank: $(awk '$2 > 0.5 {n++; s += $2; l = l " " $1 " " $2} END {printf "%d waits, %.1f s in all:%s", n, s, l}' "$WORK/times.$rank")"
        awk -v most=$((JOIN + 1)) '$2 > 0.5 {s += $2} END {exit s > most}' "$WORK/times.$rank" || fail "rank $rank waited for longer than $((JOIN + 1)) s"
        awk -v most=$((JOIN + 1)) '$2 > 0.5 && $3 > most {exit 1}' "$WORK/times.$rank" || fail "rank $rank waited after $((JOIN + 1)) s once more"
    done
}

part() {
    say "$*"
    clean_ssd
    rm -f "$WORK"/times.* "$WORK"/done.*
}

# ends_within SECONDS: from the last of the work to the end of the job. A member that waits for two such ranks in turn takes 2 * JOIN.
ends_within() {
    local last
    last=$(stat -c %.Y "$WORK"/done.* | sort -n | tail -n 1)
    say "ended $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $last}") s after the work"
    awk "BEGIN {exit !($EPOCHREALTIME - $last <= $1)}" || fail "the end took longer than $1 s"
}

part 'one of four ranks is not preloaded, and is there till the others have worked'
job_killed 60 "0 1 2" 3@n0,n1,n2 bash -c "$WORKER" _ 0,1,2 -- \
    1@n2 env -u LD_PRELOAD bash -c 'until [ -e "$W/done.0" ] && [ -e "$W/done.1" ] && [ -e "$W/done.2" ]; do sleep 0.1; done'
ends_within $((2 * JOIN))
waits 0 1 2

part 'two of five, one of which ends at once'
job_killed 60 "0 1 2" 3@n0,n1,n2 bash -c "$WORKER" _ 0,1,2 -- 1@n0 env -u LD_PRELOAD true -- \
    1@n2 env -u LD_PRELOAD bash -c 'until [ -e "$W/done.0" ] && [ -e "$W/done.1" ] && [ -e "$W/done.2" ]; do sleep 0.1; done'
ends_within $((2 * JOIN))
waits 0 1 2

# A preloaded rank at its exit serves until all are (DYAD_LINGER); with 0 it goes when its program has ended.
JOB_ENV+=(DYAD_LINGER=0)
part 'two of five ranks have joined, and end early'
job_killed 60 "0 1 2" 3@n0,n1,n2 bash -c "$WORKER" _ 0,1,2 -- \
    2@n0,n1 bash -c 'echo x >"$SSD/early.$PMIX_RANK"; [ $PMIX_RANK = 3 ] || sleep 0.5; exit'
waits 0 1 2
