#!/bin/bash
# Guests that read many files become peers: they fetch and serve by themselves, and nothing is lost when they end.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
HERE=$SOURCE_DIR/test/integration/progs
JOB_ENV+=(DYAD_PROMOTE=5 DYAD_STATS=1 DYAD_PREFETCH=off) # else the member brings the numbered files

# number RANK TEXT: of the statistics of a rank's member, what stands before TEXT.
number() {
    sed -n "s/.* rank $1].*statistics: .* \([0-9][0-9]*\) $2.*/\1/p" "$LOG"
}

# A pool of workers reads a data set of node 0 and writes what node 2 reads.
job_ok 60 1@n0 "$PYTHON" "$HERE/pool.py" make "$SSD" 400 -- 1@n1 "$PYTHON" "$HERE/pool.py" work "$SSD" 400 -- \
    1@n2 "$PYTHON" "$HERE/pool.py" take "$SSD" 400
grep -q 'take: 400 results are right' "$OUT" || fail "not all results were read"
grep pool: "$OUT"
promoted=$(number 1 'promoted guests') fetched=$(number 1 'files ([0-9]* bytes); [0-9]* requests')
sent_on=$(number 1 'requests sent on') served=$(sed -n 's/.*promoted process.* served \([0-9]*\) bytes/\1/p' "$LOG" | paste -sd+ | bc)
say "$promoted workers promoted, $fetched files fetched by them, $sent_on requests sent on to them, $served bytes served"
[ "$promoted" -eq 4 ] || fail "of 4 workers $promoted were promoted"
[ "$fetched" -ge 200 ] || fail "only $fetched files went through promoted workers"
[ "$sent_on" -gt 0 ] && [ "$served" -ge $((8 << 20)) ] || fail "nothing was served by promoted workers"

# Off: a guest stays a guest, and short-lived ones never are promoted.
clean_ssd
JOB_ENV+=(DYAD_PROMOTE=0)
job_ok 60 1@n0 "$PYTHON" "$HERE/pool.py" make "$SSD" 100 -- 1@n1 "$PYTHON" "$HERE/pool.py" work "$SSD" 100 -- 1@n2 true
[ "$(number 1 'promoted guests')" -eq 0 ] || fail "promoted with DYAD_PROMOTE=0"

# Killed in fetches and in serving, exec, exit, files that are rewritten during fetches.
clean_ssd
JOB_ENV+=(DYAD_PROMOTE=5)
job_ok 90 1@n0 "$PYTHON" "$HERE/promoted.py" feed "$SSD" "$WORK" -- 1@n1 "$PYTHON" "$HERE/promoted.py" bear "$SSD" "$WORK" -- \
    1@n2 "$PYTHON" "$HERE/promoted.py" fetch "$SSD" "$WORK"
cat "$OUT"
grep -q 'bear: all right' "$OUT" && grep -q 'fetch: all right' "$OUT" || fail "not all was read"
grep -q 'in its fetches' "$OUT" || fail "no worker was killed in its fetches"
grep -q 'a promoted guest, to which rank 1 .* is fetched from the latter' "$LOG" || fail "no worker was killed while it served"
