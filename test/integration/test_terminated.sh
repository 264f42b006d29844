#!/bin/bash
# A launcher that is told to end (SIGTERM, SIGINT, scancel) ends its job in the midst of writing, publishing and
# fetching: no process and no shared memory is left, what was published is whole, what was not can be told from it, and
# who comes next on the same disks works: another job, and in a session directory another launch, which serves it.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/slurm.sh"
cluster_up 3
MPIRUN_ARGS=()
X=$PROGS/xfer
ENOENT=2
SIZE=300K
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" "SIZE=$SIZE")

# A rank of the job: for ever it writes files, whose names it notes in a file of its own once they are closed, and reads
# what the others have noted. Beside that two files have just been begun: `half.RANK`, and `over.RANK`, which was published
# in an earlier version.
cat >"$WORK/rank" <<'END'
#!/bin/bash
r=$PMIX_RANK
"$X" write -d "$SSD" -p "over.$r" -s 100K || exit 1
[ $r != 0 ] || "$X" write -d "$SSD" -p copy.0 -s 100 || exit 1
[ $r != 1 ] || "$X" read -d "$SSD" -p copy.0 -s 100 || exit 1
(
    exec 3>"$SSD/half.$r.000000" 4>"$SSD/over.$r.000000"
    head -c 50000 /dev/zero >&3
    head -c 50000 /dev/zero >&4
    : >"$W/begun.$r"
    sleep 1000
) &
"$X" write -d "$SSD" -p "large.$r" -s 48M || exit 1
echo "large.$r 48M" >>"$W/noted.$r"
(for q in 0 1 2 3; do # some of these fetches are broken off
    "$X" read -d "$SSD" -p "large.$q" -s 48M || exit 1
done) &
for ((i = 0; ; i++)); do
    "$X" write -d "$SSD" -p "w.$r.$i" -s "$SIZE" -m "$([ $((i % 2)) = 0 ] && echo open || echo rename)" || exit 1
    echo "w.$r.$i $SIZE" >>"$W/noted.$r"
    q=$(((r + 1 + i % 3) % 4))
    while read -r name size; do
        "$X" read -d "$SSD" -p "$name" -s "$size" || exit 1
    done < <(tail -n 1 "$W/noted.$q" 2>/dev/null)
    [ $i != 6 ] || : >"$W/busy.$r"
done
END
# What is noted of rank $2 is read, as preloaded programs of node $1 see it.
cat >"$WORK/noted" <<'END'
#!/bin/bash
for r in "$@"; do
    while read -r name size; do
        "$X" read -d "$SSD" -p "$name" -s "$size" || exit 1
    done <"$W/noted.$r"
done
END
chmod +x "$WORK/rank" "$WORK/noted"
RANKS=(4@n0,n1,n2 "$WORK/rank") # 0 and 1 on n0, 2 on n1, 3 on n2, as --map-by node has it: 0 3 / 1 / 2

node_of() { # RANK
    echo "n$(($1 % 3))"
}

begin_case() {
    say "$*"
    rm -f "$WORK"/begun.* "$WORK"/busy.* "$WORK"/noted.*
    clean_ssd
}

busy() {
    local rank
    for rank in 0 1 2 3; do
        until_true 30 "rank $rank has begun two files" test -e "$WORK/begun.$rank"
        until_true 30 "rank $rank has written some" test -e "$WORK/busy.$rank"
    done
}

# The job is over: nothing of it runs, and each file that was noted is whole where it was written, read without the library.
# So is each that bears a name at all, but for those that were being written when the end came.
all_over() {
    local node rank name size found
    for node in "${NODES[@]}" head; do
        [ "$node" = head ] || until_true 10 "nothing of the job runs on $node" nobody_on_but_slurm "$node"
        found=$(node_exec "$node" sh -c 'ls -A /dev/shm; sed 1d /proc/sysvipc/shm')
        [ -z "$found" ] || fail "shared memory left on $node: $found"
    done
    for rank in 0 1 2 3; do
        node_exec "$(node_of $rank)" env "X=$X" "W=$WORK" "SSD=$SSD" "$WORK/noted" $rank >/dev/null || fail "what rank $rank had published is not whole"
        [ "$(wc -l <"$WORK/noted.$rank")" -ge 6 ] || fail "rank $rank had published nearly nothing"
    done
    for node in "${NODES[@]}"; do
        # But for those whose writer was at work on this node: half, over, and the one after the last that was noted.
        : >"$WORK/noted.copies"
        for name in $(node_exec "$node" sh -c 'cd "$1" && ls | grep -E "^(w|large)\..*\.000000$"' _ "$SSD"); do
            name=${name%.000000} rank=${name#*.} rank=${rank%%.*} size=48M
            [ "${name%%.*}" = large ] || size=$SIZE
            [ "$(node_of "$rank")" = "$node" ] || echo "$name $size" >>"$WORK/noted.copies"
        done
        node_exec "$node" env "X=$X" "W=$WORK" "SSD=$SSD" "$WORK/noted" copies >/dev/null || fail "a copy on $node is not whole"
    done
}

# Slurm's own daemons apart. A child that its rank's end has left behind (linuxproc finds only whose parents live) asks
# slurmstepd's PMIx server for ranks whose nodes have none any more, and that server, in pmixp_p2p_send(), tries to reach them
# for up to a minute before slurmstepd ends. The child itself ends as soon as it knows that nobody is there.
nobody_on_but_slurm() {
    ! strays "$1" 2>/dev/null | grep -qv -E '^[0-9]+ (slurmd|slurmstepd:|sleep 1000 *$)'
}

# terminate SIGNAL...: mpirun gets it, and is to end within 15 s.
terminate() {
    local pid begin=$SECONDS
    for pid in $(mpirun_pids); do
        node_exec head kill -"$1" "$pid" || fail "mpirun is not there any more"
    done
    { job_wait && fail "mpirun ended well for all the signal"; } 2>/dev/null
    say "mpirun ended $((SECONDS - begin)) s after SIG$1"
    [ $((SECONDS - begin)) -le 15 ] || fail "mpirun took $((SECONDS - begin)) s to end"
}

# Another job on the same disks. What lies there complete is a plain file of its node, copies included, for nobody of
# this job has fetched them; what was being written is abandoned still, so an open waits for somebody to write it anew, or
# fails when nobody does.
another_job() {
    job_ok 60 1@n0 bash -c '"$W/noted" 0 3 && "$X" write -d "$SSD" -p copy.0 -s 200 && "$X" write -d "$SSD" -p half.1 -s 100 &&
            "$X" read -d "$SSD" -p half.0 -s 100 && "$X" read -d "$SSD" -p over.3 -s 100 && "$X" write -d "$SSD" -p new -s 1M; exit' -- \
        1@n1 bash -c '"$W/noted" 1 && "$X" read -d "$SSD" -p half.1 -s 100 && "$X" write -d "$SSD" -p half.0 -s 100 &&
            "$X" read -d "$SSD" -p over.1 -E '$ENOENT' && "$X" read -d "$SSD" -p copy.0 -s 100; exit' -- \
        1@n2 bash -c '"$W/noted" 2 && "$X" write -d "$SSD" -p over.3 -s 100 && "$X" read -d "$SSD" -p new -s 1M; exit'
}

tmp_left() {
    local node
    for node in "${NODES[@]}"; do
        node_exec "$node" ls -A "$SSD/.dyad/tmp"
    done | wc -l
}

for signal in TERM INT; do
    begin_case "mpirun gets SIG$signal"
    job_begin 60 "${RANKS[@]}"
    busy
    terminate $signal
    all_over
    say "$(cat "$WORK"/noted.* | wc -l) files were published, and $(tmp_left) temporary files are left"
    another_job # and none then
done

begin_case 'the next launch of a session directory serves what was published, on every node'
JOB_ENV+=("DYAD_SESSION_DIR=$WORK/session")
job_begin 60 "${RANKS[@]}"
busy
terminate TERM
all_over
job_ok 60 1@n0 bash -c '"$X" write -d "$SSD" -p copy.0 -s 200 && "$X" write -d "$SSD" -p half.1 -s 100 && "$W/noted" 0 1 2 3 &&
        "$X" read -d "$SSD" -p half.0 -s 100 && "$X" read -d "$SSD" -p over.1 -s 100 && "$X" write -d "$SSD" -p end; exit' -- \
    1@n1 bash -c '"$X" read -d "$SSD" -p half.1 -s 100 || exit 1
        # Nobody of this launch knew of the copy here when it was written anew: it goes when it has been looked up.
        for ((i = 0; i < 100; i++)); do [ "$(stat -c %s "$SSD/copy.0.000000")" = 100 ] || break; sleep 0.1; done
        "$X" read -d "$SSD" -p copy.0 -s 200 && "$W/noted" 0 1 2 3 &&
        "$X" write -d "$SSD" -p half.0 -s 100 && "$X" read -d "$SSD" -p over.1 -s 100 && "$X" read -d "$SSD" -p end; exit' -- \
    1@n2 bash -c '"$W/noted" 0 1 2 3 && "$X" write -d "$SSD" -p over.1 -s 100 && "$X" read -d "$SSD" -p end; exit'
unset 'JOB_ENV[-1]'

# srun in the background, with tasks 0 and 3 on n0, 1 on n1, 2 on n2; its end is not a success.
srun_begin() {
    JOBS=$((JOBS + 10))
    slurm_job 60 -N3 -n4 --distribution=cyclic "$WORK/rank" &
    JOB_PID=$!
    busy
}
srun_ended() {
    local begin=$SECONDS
    { job_wait && fail "srun ended well for all that"; } 2>/dev/null
    say "srun ended $((SECONDS - begin)) s after $1"
    # A child left behind has its output, till it knows (DYAD_JOIN_TIMEOUT) that it is alone. One that joined in its dead
    # rank's place cannot know: slurmstepd, asked for the others, tries their nodes for a minute. Slurm's KillWait (30 s) ends it.
    [ $((SECONDS - begin)) -le 45 ] || fail "srun took $((SECONDS - begin)) s to end"
    all_over
}

slurm_up
begin_case 'srun gets SIGTERM'
srun_begin
for pid in $(strays head 2>/dev/null | sed -n 's/^\([0-9]*\) srun .*/\1/p' | head -n 1); do
    node_exec head kill -TERM "$pid"
done
srun_ended SIGTERM
begin_case 'scancel'
srun_begin
node_exec head scancel -u root
srun_ended scancel
slurm_job_ok 60 -N3 -n3 --distribution=cyclic bash -c 'r=$PMIX_RANK; "$W/noted" $r && "$X" write -d "$SSD" -p new.$r &&
    for q in 0 1 2; do "$X" read -d "$SSD" -p new.$q || exit 1; done'
say "$(tmp_left) temporary files are left"
[ "$(tmp_left)" = 0 ] || fail "a temporary file of a fetch that was broken off outlives the next job"
