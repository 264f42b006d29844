#!/bin/bash
# A copy is not opened when a newer version's close has returned: not on a node that is cut off, nor by who was stopped
# meanwhile, and not by others of its node either. What was published on the cut-off node can be read there.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 3
JOB_ENV+=(DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3 "W=$WORK" "SSD=$SSD" "PYTHON=$PYTHON")
FILES=12

# Opens each file again and again until go.end is there. What it read is judged by what was there before it began.
cat >"$WORK/read.py" <<'END'
import collections, errno, os, sys, time
work, ssd, rank, n = os.environ["W"], os.environ["SSD"], os.environ["PMIX_RANK"], int(sys.argv[1])
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.005
def there(name):
    return os.path.exists(os.path.join(work, name))
def made(name):
    open(os.path.join(work, name), "w").close()
seen, wrong, worst, rounds, done = collections.Counter(), [], 0.0, 0, False
while not done:
    done, rounds = there("go.end"), rounds + 1
    for i in range(n):
        closed, begin = there("closed.%d" % i), time.monotonic()
        try:
            with open("%s/f.%d" % (ssd, i)) as f:
                what = f.read().strip()
        except OSError as e:
            what = errno.errorcode[e.errno]
        took = time.monotonic() - begin
        worst = max(worst, took)
        seen[what, closed] += 1
        if (closed and what == "old") or (what != "new" and done) or what not in ("old", "new", "EHOSTUNREACH"):
            wrong.append((i, what, round(begin, 3), round(took, 3)))
        if closed and what == "EHOSTUNREACH":
            made("refused." + rank)
    if os.path.exists(ssd + "/own"):
        begin = time.monotonic()
        assert open(ssd + "/own").read() == "own\n"
        seen["own", there("go.cut")] += 1
        worst = max(worst, time.monotonic() - begin)
    made("reads." + rank)
    time.sleep(pause)
print("rank %s: %d rounds, %s, worst %.2f s" % (rank, rounds, dict(seen), worst))
if wrong:
    sys.exit("rank %s read: %s" % (rank, wrong[:20]))
if worst > 12:
    sys.exit("rank %s: an open took %.1f s" % (rank, worst))
END
OLD='for i in {0..'$((FILES - 1))'}; do echo old >"$SSD/f.$i"; done; made flag.old; '
# Each close is timed by the file that is made behind it. All at once: they wait for the same homes.
NEW='for i in {0..'$((FILES - 1))'}; do (echo new >"$SSD/f.$i"; made "closed.$i") & done; wait; made flag.new; '

next() {
    rm -f "$WORK"/{flag,go,closed,refused,reads}.*
    clean_ssd
}

# Cut off, with two readers: one has fetched all, both read. A third reads on the majority. The writer has closed all before
# the link is whole again.
next
job_begin 120 \
    1@n0 bash -c "$RANK$OLD"'wait_for go.cut; '"$NEW"'wait_for go.end' -- \
    1@n1 bash -c "$RANK"'wait_for flag.old; exec "$PYTHON" "$W/read.py" '$FILES -- \
    1@n2 bash -c "$RANK"'wait_for flag.old; for i in {0..'$((FILES - 1))'}; do cat "$SSD/f.$i" >/dev/null; done
        echo own >"$SSD/own"; made flag.copied; exec "$PYTHON" "$W/read.py" '$FILES -- \
    1@n2 bash -c "$RANK"'wait_for flag.copied; exec "$PYTHON" "$W/read.py" '$FILES
for rank in 1 2 3; do until_true 30 "rank $rank reads" test -e "$WORK/reads.$rank"; done
sleep 1
"$CLUSTER_SH" cut n2
: >"$WORK/go.cut"
until_true 60 "the writer has closed all" test -e "$WORK/flag.new"
for rank in 2 3; do until_true 30 "rank $rank is refused what is out of date" test -e "$WORK/refused.$rank"; done
"$CLUSTER_SH" heal n2
until_true 30 "all find each other again" sh -c '[ "$(grep -c "is back after" "$1")" -ge 4 ]' _ "$LOG"
sleep 3
: >"$WORK/go.end"
job_end_ok 60
[ ! -e "$WORK/refused.1" ] || say "the majority was refused something"

# Cuts that are over before anybody is taken for dead, or just then: the news comes late.
for seconds in 0.4 0.9 1.5 2.5 4; do
    next
    : >"$LOG"
    job_begin 90 \
        1@n0 bash -c "$RANK$OLD"'wait_for go.cut; '"$NEW"'wait_for go.end' -- \
        1@n1 bash -c "$RANK"'wait_for go.end' -- \
        1@n2 bash -c "$RANK"'wait_for flag.old; exec "$PYTHON" "$W/read.py" '$FILES
    until_true 30 "rank 2 reads" test -e "$WORK/reads.2"
    sleep 0.5
    "$CLUSTER_SH" cut n2
    : >"$WORK/go.cut"
    sleep "$seconds"
    "$CLUSTER_SH" heal n2
    until_true 60 "the writer has closed all" test -e "$WORK/flag.new"
    sleep 5
    : >"$WORK/go.end"
    job_end_ok 60
done

# Stopped while all is published anew, with nobody on its node to remove it in its place: for less and more than it takes to be
# given up.
for seconds in 1.2 2 5; do
    next
    : >"$LOG"
    job_begin 60 \
        1@n0 bash -c "$RANK$OLD"'wait_for go.cut; '"$NEW"'wait_for go.end' -- \
        1@n1 bash -c "$RANK"'wait_for go.end' -- \
        1@n2 bash -c "$RANK"'wait_for flag.old; for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; done
            echo $$ >"$W/flag.pid.new"; mv "$W/flag.pid.new" "$W/flag.pid"; kill -STOP $$
            for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; [ "$x" = new ] || { echo "f.$i is $x"; exit 9; }; done
            wait_for go.end'
    until_true 30 "rank 2 has copies" test -e "$WORK/flag.pid"
    sleep 0.2
    : >"$WORK/go.cut"
    until_true 60 "the writer has closed all" test -e "$WORK/flag.new"
    sleep "$seconds"
    "$CLUSTER_SH" exec n2 kill -CONT "$(<"$WORK/flag.pid")"
    sleep 0.5
    : >"$WORK/go.end"
    job_end_ok 60
done
