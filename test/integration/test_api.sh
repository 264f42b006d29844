#!/bin/bash
# The C API, without and with the wrapper in the process.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
A=$PROGS/api_pair

for preload in "" "$PRELOAD"; do
    clean_ssd
    START=none
    JOB_ENV+=(DYAD_PREFETCH=auto "DYAD_PATH=$SSD" "LD_LIBRARY_PATH=$LIB" "LD_PRELOAD=$preload")
    job_ok 60 1@n0 "$A" produce "$SSD" 100 -- 1@n1 "$A" consume "$SSD" 100
    grep -q 'produce done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not both reported"
    same_sums 100 n0 n1
done

# What is sealed is published so, and has all bytes: by who has made it, when it is complete with that; and by another node.
for preload in "" "$PRELOAD"; do
    clean_ssd
    JOB_ENV+=("DYAD_COMPLETE_AT_CHMOD=*" "LD_PRELOAD=$preload")
    job_ok 60 1@n0 "$A" laminate "$SSD" 20 -- 1@n1 "$A" consume "$SSD" 20
    grep -q 'laminate done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not both reported"
    same_sums 20 n0 n1
    # Where others count as writers until then, too: by one of them, who waits for none of them.
    clean_ssd
    job_ok 60 1@n0 "$A" laminate "$SSD" 20 -- 1@n1 "$A" seal "$SSD" 20 -- 1@n1 "$A" consume "$SSD" 20
    grep -q 'laminate done' "$OUT" && grep -q 'seal done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not all reported"
    clean_ssd
    JOB_ENV+=("DYAD_COMPLETE_AT_CHMOD=" "LD_PRELOAD=$preload")
    job_ok 60 1@n0 "$A" produce "$SSD" 20 -- 1@n1 "$A" seal "$SSD" 20
    grep -q 'seal done' "$OUT" || fail "what another node has made was not sealed"
done

# What the consumer names beforehand comes without being consumed; what it names and nobody writes holds nobody up.
clean_ssd
START=none
JOB_ENV+=("LD_PRELOAD=")
job_ok 60 1@n0 "$A" produce "$SSD" 20 -- 1@n1 "$A" ahead "$SSD" 20
grep -q 'ahead done' "$OUT" || fail "what was named did not come"

# Who has left can join anew, and is then its rank's member again.
START=none
clean_ssd
JOB_ENV+=("LD_PRELOAD=" DYAD_LINGER=0)
job_ok 60 1@n0 "$A" again "$SSD" 3
grep -q 'again done' "$OUT" || fail "it did not come to its end"

# Without a launcher: an error code, no hang, no crash.
status=0
DYAD_PATH=$WORK LD_LIBRARY_PATH=$LIB timeout -k 2 20 "$A" produce "$WORK" 1 >"$WORK/alone" 2>&1 || status=$?
[ $status -le 1 ] || fail "without a launcher: status $status: $(cat "$WORK/alone")"
