#!/bin/bash
# Launches that are started by processes of a session: a workflow script under dyad-run, launchers that are preloaded
# themselves, and scripts that call dyad-run more than once.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/../cluster/slurm.sh"
cluster_up 2
SESSION=$WORK/session
# As ssh, and unlike the agent of the other tests, this one does not pass on what is in mpirun's environment.
cat >"$WORK/rsh" <<EOF2
#!/bin/sh
exec env -i PATH="\$PATH" CLUSTER_DIR="\$CLUSTER_DIR" CLUSTER_NODE="\$CLUSTER_NODE" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$TEST_DIR/cluster/rsh-agent" "\$@"
EOF2
chmod +x "$WORK/rsh"
MPIRUN="mpirun --oversubscribe --bind-to none --mca plm_rsh_agent $WORK/rsh --mca plm_rsh_no_tree_spawn 1"

# solo NODE SECONDS PROGRAM ARG...: dyad-run of a workflow script on that node, in the background.
solo() {
    local node=$1 seconds=$2
    shift 2
    node_exec "$node" env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" "SSD=$SSD" "W=$WORK" "MPIRUN=$MPIRUN" "RUN=$BIN/dyad-run" \
        "JOIN=$BIN/dyad-run --dmd $SSD --session-dir $SESSION --log info --log-file $LOG" timeout -k 2 "$seconds" \
        "$BIN/dyad-run" --dmd "$SSD" --session-dir "$SESSION" "$@" </dev/null &
}

ok() {
    local what=$1 status=0
    shift
    wait "$1" || status=$?
    [ $status -ne 124 ] && [ $status -ne 137 ] || fail "$what did not end in time"
    [ $status -eq 0 ] || fail "$what: status $status"
}

part() {
    say "$*"
    clean_ssd
    rm -rf "$SESSION" "$WORK"/flag.* "$WORK"/got
}

# The head has the managed directory, too: there mpirun can start ranks of all nodes.
clean_head() {
    node_exec head find "$SSD" -mindepth 1 -delete
}

part 'mpirun in a script: its ranks leave what they wrote to the script'
solo n0 40 bash -c '$MPIRUN -n 2 -host n0:2 $JOIN bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK" "$SSD" &&
    cat "$SSD/f0" "$SSD/f1" >"$W/got"; : >"$W/flag.inner"; cat "$SSD/over"'
one=$!
until_true 20 "mpirun ends" test -e "$WORK/flag.inner"
[ "$(tr '\n' ' ' <"$WORK/got")" = "0 1 " ] || fail "the script read $(cat "$WORK/got")"
solo n1 20 bash -c 'cat "$SSD/f0" "$SSD/f1" >"$W/got"; echo >"$SSD/over"'
two=$!
ok "the other node" $two
ok "the script" $one
[ "$(tr '\n' ' ' <"$WORK/got")" = "0 1 " ] || fail "another node read $(cat "$WORK/got")"
nothing_left

part 'they leave to it while somebody else is busy'
solo n1 40 bash -c 'until [ -e "$W/flag.inner" ]; do sleep 0.05; done; cat "$SSD/f0"'
two=$!
solo n0 40 bash -c '$MPIRUN -n 1 -host n0:1 $JOIN bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK" "$SSD" && : >"$W/flag.inner"'
ok "the script" $!
ok "the other node" $two
nothing_left

part 'ranks on other nodes, one of them on the node of the script'
solo head 40 bash -c '$MPIRUN -n 3 -host head:1,n0:1,n1:1 --map-by node $JOIN bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK; cat \$0/f0 \$0/f1 \$0/f2" "$SSD" >"$W/got"'
ok "the script" $!
[ "$(sort "$WORK/got" | tr '\n' ' ')" = "0 0 0 1 1 1 2 2 2 " ] || fail "the ranks read $(cat "$WORK/got")"
nothing_left
clean_head

part 'ranks on other nodes only'
solo head 40 bash -c '$MPIRUN -n 2 -host n0:1,n1:1 --map-by node $JOIN bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK; cat \$0/f0 \$0/f1" "$SSD" >"$W/got"; : >"$W/flag.inner"'
ok "the script" $!
[ "$(sort "$WORK/got" | tr '\n' ' ')" = "0 0 1 1 " ] || fail "the ranks read $(cat "$WORK/got")"
nothing_left
clean_head

part 'two such scripts at the same time do not wait for one another'
for which in a b; do # their ranks wait for one another's files, so they run at the same time
    solo head 40 bash -c '$MPIRUN -n 2 -host head:1,n$1:1 --map-by node $JOIN bash -c "echo >\$0/$0\$PMIX_RANK; cat \$0/a\$PMIX_RANK \$0/b\$PMIX_RANK" "$SSD"
        : >"$W/flag.$0"' $which "$([ $which = b ] || echo 0)$([ $which = a ] || echo 1)"
    one=${two:-} two=$!
done
ok "the first script" $one
ok "the second script" $two
[ -e "$WORK/flag.a" ] && [ -e "$WORK/flag.b" ] || fail "a script did not go on"
nothing_left
clean_head

part 'a rank on another node serves what it wrote as long as somebody else needs it'
solo n1 60 bash -c 'until [ -e "$W/flag.inner" ]; do sleep 0.05; done; sleep 3; cat "$SSD/f1"'
two=$!
solo head 60 bash -c '$MPIRUN -n 2 -host head:1,n0:1 --map-by node $JOIN bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK; : >\$1/flag.inner" "$SSD" "$W"'
one=$!
ok "the reader" $two
ok "the script" $one
nothing_left
clean_head

part 'and as long as the script itself fetches it'
solo head 60 bash -c '$MPIRUN -n 1 -host n0:1 $JOIN bash -c "head -c 600000000 /dev/zero >\$0/big" "$SSD" & cksum <"$SSD/big" >"$W/got" && wait $!'
ok "the script" $!
[ "$(cat "$WORK/got")" = "$(head -c 600000000 /dev/zero | cksum)" ] || fail "the script read $(cat "$WORK/got")"
nothing_left
clean_head

part 'a launcher that is preloaded'
solo head 40 $MPIRUN -n 2 -host head:1,n0:1 --map-by node -x LD_PRELOAD -x DYAD_PATH -x DYAD_SESSION_DIR -x DYAD_LOG -x DYAD_LOG_FILE \
    bash -c 'echo $PMIX_RANK >$0/f$PMIX_RANK; cat $0/f0 $0/f1' "$SSD" >"$WORK/got"
ok "dyad-run mpirun" $!
[ "$(sort "$WORK/got" | tr '\n' ' ')" = "0 0 1 1 " ] || fail "the ranks read $(cat "$WORK/got")"
! grep -q 'solo\.' "$LOG" || fail "a process of the launcher joined: $(grep 'solo\.' "$LOG")"
nothing_left
clean_head

part 'who lingers says so'
solo n1 40 bash -c 'echo >"$SSD/here"; until [ -e "$W/flag.over" ]; do sleep 0.05; done'
one=$!
solo n0 40 bash -c 'cat "$SSD/here"; echo >"$SSD/f"'
two=$!
until_true 20 "a line" grep -q 'warning: this program has ended.*others of the session run: process [0-9]* on node n1' "$LOG"
: >"$WORK/flag.over"
ok "who runs" $one
ok "who lingers" $two
[ "$(grep -c 'this program has ended' "$LOG")" = 1 ] || fail "not one line: $(grep 'this program has ended' "$LOG")"

part "a rank's script that waits for a file, runs a program without the library, and publishes"
cat >"$WORK/script" <<'EOF2'
#!/bin/sh
"$RUN" --await "$SSD/in" || exit 1
env -u LD_PRELOAD sh -c 'sleep 1; cp "$SSD/in" "$SSD/out"'
exec "$RUN" --publish "$SSD/out"
EOF2
chmod +x "$WORK/script"
export RUN=$BIN/dyad-run SSD
START=dyad-run
JOB_ENV+=("RUN=$RUN" "SSD=$SSD")
job_ok 40 1@n0 "$WORK/script" -- 1@n1 sh -c 'echo input >$0/in; [ "$(cat $0/out)" = input ]' "$SSD"

part 'the same script without dyad-run before it: what is wrong is said'
cat >"$WORK/mixed" <<'EOF2'
#!/bin/sh
[ "$PMIX_RANK" = 0 ] || exec "$RUN" --dmd "$SSD" sh -c 'echo input >$SSD/in; ! cat $SSD/out'
"$RUN" --dmd "$SSD" sh -c 'cat $SSD/in'
"$RUN" --dmd "$SSD" sh -c 'echo late >$SSD/late'
EOF2
chmod +x "$WORK/mixed"
START=none
job_ok 40 1@n0 "$WORK/mixed" -- 1@n1 "$WORK/mixed"
grep -q 'nobody is left.*start the script itself with dyad-run' "$LOG" || fail "the cause is not said: $(grep 'nobody is left' "$LOG")"

part 'srun in a script: its ranks know from their environment whose they are'
START=x
slurm_up
solo head 60 srun --mpi=pmix --overlap -N2 -n2 -w n0,n1 "$BIN/dyad-run" \
    bash -c 'echo $PMIX_RANK >$0/f$PMIX_RANK; cat $0/f0 $0/f1' "$SSD" >"$WORK/got"
ok "dyad-run srun" $!
[ "$(sort "$WORK/got" | tr '\n' ' ')" = "0 0 1 1 " ] || fail "the ranks read $(cat "$WORK/got")"
part 'the same, the script goes on'
solo head 60 bash -c 'srun --mpi=pmix --overlap -N2 -n2 -w n0,n1 "$RUN" bash -c "echo \$PMIX_RANK >\$0/f\$PMIX_RANK; cat \$0/f0 \$0/f1" "$SSD" >"$W/got" &&
    : >"$W/flag.inner"'
ok "the script" $!
[ "$(sort "$WORK/got" | tr '\n' ' ')" = "0 0 1 1 " ] && [ -e "$WORK/flag.inner" ] || fail "the ranks read $(cat "$WORK/got")"
clean_head
