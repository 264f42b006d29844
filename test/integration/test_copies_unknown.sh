#!/bin/bash
# Copies of which nobody knows any more, because their owner and all homes were killed: they go, and do not make each open of
# the others a question for the rest of the job. What a home knows stays.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 4
FILES=60 OPENS=1500
JOB_ENV+=("W=$WORK" "SSD=$SSD" "PYTHON=$PYTHON" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3 DYAD_STATS=1 DYAD_LOG=debug)

cat >"$WORK/opens.py" <<'END_OF_OPENS'
import os, sys
ssd, files, opens = os.environ["SSD"], int(sys.argv[1]), int(sys.argv[2])
here = [n for n in sorted(os.listdir(ssd)) if n.startswith("f.")]
left = ["f.%d" % i for i in range(files) if "f.%d" % i in here]
for i in range(opens):
    assert open(os.path.join(ssd, left[i % len(left)])).read() == "old\n"
print("copies %d" % len(left))
END_OF_OPENS

rm -f "$WORK"/ok.*
job_begin 60 2@n0,n1 bash -c "$RANK"'
    [ $PMIX_RANK = 1 ] || { for i in {0..'$((FILES - 1))'}; do echo old >"$SSD/f.$i"; done; made flag.written; }
    echo $$ >"$W/pid.$PMIX_RANK"
    wait_for flag.never' -- \
    1@n2 bash -c "$RANK"'wait_for flag.end; made ok.2' -- \
    1@n3 bash -c "$RANK"'
    wait_for flag.written
    for i in {0..'$((FILES - 1))'}; do read -r x <"$SSD/f.$i"; done
    made flag.copied
    wait_for flag.compared
    DYAD_LISTING=0 "$PYTHON" "$W/opens.py" '"$FILES $OPENS"'
    made flag.end; made ok.3'
until_true 30 "rank 3 has its copies" test -e "$WORK/flag.copied"
until_true 10 "ranks 0 and 1 are known" test -e "$WORK/pid.1"
for rank in 0 1; do "$CLUSTER_SH" exec n$rank kill -9 "$(<"$WORK/pid.$rank")"; done
compared() { grep "rank 3.*all copies whose homes have changed have been compared" "$LOG" >/dev/null; }
until_true 30 "all copies have been compared" compared
: >"$WORK/flag.compared"
job_over 60 2 3
dropped=$(grep -c 'no home knows of the version of' "$LOG")
copies=$(sed -n 's/^copies //p' "$OUT")
asked=$(sed -n 's/.*rank 3.*statistics: .*look-ups: sent \([0-9]*\),.*/\1/p' "$LOG" | tail -n 1)
say "$dropped copies went, $copies stayed; $asked look-ups"
[ "$dropped" -gt 0 ] || fail "no copy had lost its owner and all homes"
[ "$((dropped + copies))" = $FILES ] || fail "$dropped copies went, and $copies of $FILES stayed"
# Each of the opens asks two homes where no lease is renewed.
[ "$asked" -lt $OPENS ] || fail "$asked look-ups: opens of copies that are known still ask"
