#!/bin/bash
# python3 producer and consumer, unchanged: both orders.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 2
HERE=$SOURCE_DIR/test/integration/progs

job_ok 60 1@n0 sh -c 'until [ -e "$1" ]; do sleep 0.05; done; exec "$2" "$3" "$4"' _ "$WORK/ready" "$PYTHON" "$HERE/producer.py" "$SSD" -- \
    1@n1 sh -c ': >"$1"; "$2" "$3" "$4"' _ "$WORK/ready" "$PYTHON" "$HERE/consumer.py" "$SSD"
grep -q 'all right' "$OUT" || fail "the consumer did not report"
clean_ssd
START=dyad-run job_ok 60 1@n0 "$PYTHON" "$HERE/producer.py" "$SSD" -- 1@n1 "$PYTHON" "$HERE/consumer.py" "$SSD"
grep -q 'all right' "$OUT" || fail "the consumer did not report"
