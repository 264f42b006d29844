#!/bin/bash
# The recipe of docs/guide.md: Snakemake under dyad-run, its jobs on two nodes by srun, in one allocation.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/../cluster/slurm.sh"
need snakemake
cluster_up 2
slurm_up
SESSION=$WORK/session
FLOW=$WORK/flow # what all nodes see: Snakefile, and what Snakemake notes down
mkdir "$FLOW"

# Whoever makes part.i does so on node n<i mod 2>; sum is made on n1, from parts of both; temp() is removed by Snakemake
# itself, on the node where it runs. `local` runs there, too.
cat >"$FLOW/Snakefile" <<'EOF2'
import os
D = os.environ["DYAD_PATH"]
localrules: report
rule all:
    input: D + "/report"
rule part:
    output: temp(D + "/parts/{i}")
    resources: node=lambda w: int(w.i) % 2
    shell: "echo {wildcards.i} $(hostname) >{output}"
rule sum:
    input: expand(D + "/parts/{i}", i=range(2))
    output: D + "/sum"
    resources: node=1
    shell: "cat {input} >{output}; hostname >>{output}"
rule report:
    input: D + "/sum"
    output: D + "/report"
    shell: "cat {input} >{output}; echo reported >>{output}"
EOF2

cat >"$WORK/allocation" <<'EOF2'
#!/bin/bash
set -e
export DYAD_SESSION_DIR=$SESSION DYAD_PATH=$SSD PATH=$BIN:/usr/bin:/bin:/usr/sbin:/sbin
srun --overlap -N 2 --ntasks-per-node=1 dyad-run --serve &
cd "$FLOW"
dyad-run snakemake -j 4 --cluster-sync 'srun --overlap -N 1 -n 1 -w n{resources.node} dyad-run'
dyad-run snakemake -n >"$FLOW/again" 2>&1
rm -r "$DYAD_SESSION_DIR" # the servers end
wait
EOF2
chmod +x "$WORK/allocation"

# CI: Snakemake then looks once a second, and not every ten, whether a job has ended.
run() {
    local status=0
    node_exec head env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" SESSION="$SESSION" SSD="$SSD" BIN="$BIN" FLOW="$FLOW" HOME="$WORK" CI=true \
        timeout -k 2 60 "$WORK/allocation" "$@" </dev/null >"$WORK/job.1.out" 2>"$WORK/job.1.err" || status=$?
    [ $status -eq 0 ] || fail "status $status: $(grep -v '^$' "$WORK/job.1.err" | tail -n 30)"
}

run
[ "$(node_exec head cat "$SSD/report" | tr '\n' ' ')" = "0 n0 1 n1 n1 reported " ] || fail "the report: $(node_exec head cat "$SSD/report")"
grep -q '4 of 4 steps (100%) done\|5 of 5 steps (100%) done' "$WORK/job.1.err" || fail "not all steps"
for n in n0 n1; do
    [ -z "$(node_exec $n find "$SSD/parts" -type f 2>/dev/null)" ] || fail "temp() files are left on $n"
done
grep -q 'Nothing to be done' "$WORK/flow/again" || fail "run once more it would do: $(cat "$FLOW/again")"
! grep -q 'goes on serving its files' "$LOG" || fail "a step lingered"
