#!/bin/bash
# The recipe of docs/guide.md: a Dask cluster whose workers, on two nodes, give each other files.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
need dask-scheduler dask-worker
cluster_up 2
JOB_ENV+=("DYAD_SESSION_DIR=$WORK/session" "HOME=$WORK" "DASK_TEMPORARY_DIRECTORY=$WORK/dask")

cat >"$WORK/client.py" <<'EOF2'
import os, socket, sys
from dask.distributed import Client

D = os.environ["DYAD_PATH"]

def write(i):
    with open("%s/step.%d" % (D, i), "w") as f:
        f.write("%d %s\n" % (i, socket.gethostname()))
    return "%s/step.%d" % (D, i)

def read(path):
    with open(path) as f:
        return f.read().strip() + " read by " + socket.gethostname()

with Client(scheduler_file=sys.argv[1], timeout=30) as client:
    client.wait_for_workers(2, timeout=30)
    nodes = ["n0", "n1"]
    ends = []
    for i in range(8):  # each is written on one node and read on the other
        path = client.submit(write, i, workers=nodes[i % 2], pure=False)
        ends.append(client.submit(read, path, workers=nodes[(i + 1) % 2], pure=False))
    for i, end in enumerate(client.gather(ends)):
        assert end == "%d %s read by %s" % (i, nodes[i % 2], nodes[(i + 1) % 2]), end
    client.shutdown()
EOF2

node_exec n0 env "${JOB_ENV[@]}" timeout -k 2 60 dask-scheduler --scheduler-file "$WORK/scheduler.json" --no-dashboard --protocol tcp \
    </dev/null >"$WORK/job.scheduler.out" 2>&1 &
scheduler=$!
for n in n0 n1; do
    alone $n dask-worker --scheduler-file "$WORK/scheduler.json" --name $n --nthreads 2 --no-dashboard --memory-limit 0
done
node_exec head env "DYAD_PATH=$SSD" HOME="$WORK" timeout -k 2 50 "$PYTHON" "$WORK/client.py" "$WORK/scheduler.json" </dev/null \
    >"$WORK/job.client.out" 2>&1 || fail "the client: status $?: $(tail -n 20 "$WORK/job.client.out")"
launches_ok
wait $scheduler || fail "the scheduler: status $?"
same_sums 8 n0 n1
