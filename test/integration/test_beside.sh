#!/bin/bash
# Jobs side by side on the same nodes: with directories of their own, with one directory, and of different users. None sees
# anything of another but plain files, and who points at another user's session gets an error and no data.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
X=$PROGS/xfer

# Two jobs at a time, the same names with other bytes: each rank writes 60 files and reads those of the other, and removes
# ten of these when the other has counted them.
pair='"$0" write -d "$1" -p "f$PMIX_RANK" -n 60 -s 20K -x "$2" && [ "$(ls "$1" | grep -c "^f$PMIX_RANK")" = 60 ] && : >"$W/counted.$2.$PMIX_RANK" &&
    "$0" read -d "$1" -p "f$((1 - PMIX_RANK))" -n 60 -s 20K -x "$2" || exit
    until [ -e "$W/counted.$2.$((1 - PMIX_RANK))" ]; do sleep 0.05; done; rm "$1/f$((1 - PMIX_RANK))".00000?; exit'
for dir in a b; do
    for node in n0 n1; do
        node_exec $node mkdir "$SSD/$dir"
    done
done
PIDS=()
JOB_ENV+=("W=$WORK")
for dir in a b; do
    JOB_ENV+=("LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD/$dir")
    START=none job_begin 40 2@n0,n1 bash -c "$pair" "$X" "$SSD/$dir" $((0x$dir))
    PIDS+=("$JOB_PID")
    unset 'JOB_ENV[-1]' 'JOB_ENV[-1]'
done
for pid in "${PIDS[@]}"; do
    wait "$pid" || fail "one of two jobs with directories of their own ended with status $?"
done
nothing_left
for dir in a b; do
    for node in n0 n1; do # of 120 files 20 were removed, by who was not their owner
        count=$(node_exec $node sh -c 'ls "$1" | grep -c "^f"' _ "$SSD/$dir")
        [ "$count" = 100 ] || fail "$node has $count files in $dir, not 100"
    done
done

# Two jobs at a time in one directory. Of the other job's files each node sees those that lie there, as plain files; while
# one is being written its mark holds for both; nothing of it is known on another node.
clean_ssd
job_begin 40 2@n0,n1 bash -c '"$0" write -d "$1" -p "one$PMIX_RANK" -n 60 -s 20K && "$0" read -d "$1" -p "one$((1 - PMIX_RANK))" -n 60 -s 20K || exit
    [ $PMIX_RANK = 1 ] || { exec 3>"$1/slow"; : >"$2/slow.open"; until [ -e "$2/slow.close" ]; do sleep 0.05; done; echo done >&3; exec 3>&-; }
    until [ -e "$2/looked" ]; do sleep 0.05; done' "$X" "$SSD" "$WORK"
ONE=$JOB_PID
job_begin 40 1@n0 bash -c '"$0" write -d "$1" -p two -n 60 -s 20K -x 9 && until [ -e "$2/slow.open" ]; do sleep 0.05; done
    (sleep 0.5; : >"$2/slow.close") & [ "$(cat "$1/slow")" = done ] || exit 3
    : >"$2/slow.read"; until [ -e "$2/looked" ]; do sleep 0.05; done; "$0" read -d "$1" -p one0 -n 60 -s 20K; exit' "$X" "$SSD" "$WORK" -- \
    1@n1 bash -c '"$0" read -d "$1" -p two -n 60 -s 20K -x 9; status=$?
    until [ -e "$2/slow.read" ]; do sleep 0.05; done
    [ ! -e "$1/slow" ] && ! ls "$1" | grep -q slow || status=4; : >"$2/looked"; exit $status' "$X" "$SSD" "$WORK"
wait "$JOB_PID" || fail "the second of two jobs in one directory ended with status $?"
wait "$ONE" || fail "the first of two jobs in one directory ended with status $?"
nothing_left

[ "$(id -u)" -eq 0 ] || { say "no part with two users: needs root"; exit 0; }
clean_ssd

chmod 711 "$CLUSTER_DIR" # it is made for its owner alone

# as USER COMMAND...: on n0.
as() {
    local user=$1
    shift
    node_exec n0 setpriv --reuid "$user" --regid "$user" --clear-groups env "HOME=$WORK/home.$user" "$@"
}
for user in 1001 1002; do
    mkdir "$WORK/home.$user"
    node_exec n0 mkdir "$SSD/$user.x" "$SSD/$user.y"
    node_exec n0 chown $user "$SSD/$user.x" "$SSD/$user.y"
    chown $user "$WORK/home.$user"
done
# launch USER: two nodes in one, a session of its own.
launch() {
    local user=$1 node args=()
    shift
    for node in x y; do
        args+=(: -np 1 -x "LD_PRELOAD=$PRELOAD" -x "DYAD_PATH=$SSD/$user.$node" -x "DYAD_NODE=$node" -x "DYAD_LOG_FILE=$WORK/home.$user/log"
            -x DYAD_LOG=info -x "DYAD_SESSION_DIR=$WORK/home.$user/session" bash -c "$1" "$X" "$SSD/$user.$node" "$user" "$WORK/home.$user")
    done
    as "$user" timeout -k 2 40 mpirun --oversubscribe --bind-to none "${args[@]:1}" </dev/null >"$WORK/job.$user.out" 2>"$WORK/job.$user.err"
}
USERS=()
for user in 1001 1002; do
    launch $user '[ $PMIX_RANK = 1 ] || echo "of $2" >"$1/only.$2"; "$0" write -d "$1" -p "f$PMIX_RANK" -n 30 -s 20K -x "$2" && "$0" read -d "$1" -p "f$((1 - PMIX_RANK))" -n 30 -s 20K -x "$2" || exit
        : >"$3/read.$PMIX_RANK"; until [ -e "$3/end" ]; do sleep 0.05; done' &
    USERS+=("$!")
done
for user in 1001 1002; do
    for rank in 0 1; do
        until_true 30 "rank $rank of user $user has read" test -e "$WORK/home.$user/read.$rank"
    done
done

# Both run. The dump of each shows what is his.
for user in 1001 1002; do
    as $user "DYAD_PATH=$SSD/$user.x" "DYAD_SESSION_DIR=$WORK/home.$user/session" timeout -k 2 20 "$BIN/dyad-dht-dump" --entries \
        >"$WORK/dump.$user" 2>&1 || fail "the dump of user $user: $(cat "$WORK/dump.$user")"
    grep -q "only.$user" "$WORK/dump.$user" || fail "user $user does not see his own entries: $(head "$WORK/dump.$user")"
    ! grep -q "only.$((2003 - user))" "$WORK/dump.$user" || fail "user $user sees entries of user $((2003 - user))"
done

# steal WHAT NAME=VALUE...: user 1002 has guessed these, and asks for a file of user 1001. He gets an error, and no data.
steal() {
    local what=$1 status
    shift
    if as 1002 "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD/1002.x" DYAD_NODE=x DYAD_TIMEOUT=2 "$@" timeout -k 2 20 \
        bash -c 'cat "$0/only.1001"' "$SSD/1002.x" >"$WORK/stolen" 2>"$WORK/stolen.err"; then
        fail "user 1002 has read a file of user 1001: $what"
    else
        status=$?
        [ $status = 1 ] || fail "$what: cat ended with status $status: $(head -n 1 "$WORK/stolen.err")"
    fi
    [ ! -s "$WORK/stolen" ] || fail "$what: data of user 1001: $(cat "$WORK/stolen")"
    say "$what: $(head -n 1 "$WORK/stolen.err")"
}
steal 'his session directory' "DYAD_SESSION_DIR=$WORK/home.1001/session"
grep -q "session directory $WORK/home.1001/session cannot be opened: Permission denied" "$WORK/stolen.err" || fail "no word of the session directory: $(cat "$WORK/stolen.err")"
chmod 755 "$WORK/home.1001/session"
steal 'his session directory, which he has opened' "DYAD_SESSION_DIR=$WORK/home.1001/session"
grep -q "session directory $WORK/home.1001/session belongs to" "$WORK/stolen.err" || fail "no word of whose the session directory is: $(cat "$WORK/stolen.err")"
chmod 700 "$WORK/home.1001/session"
# The name of his rank's member, which anybody can see in /proc/net/unix; but it has the user in it.
nspace=$(tr '\0' '\n' < <(as 1001 sh -c 'for p in /proc/[0-9]*; do cat "$p/environ" 2>/dev/null; done') | sed -n 's/^PMIX_NAMESPACE=//p' | head -n 1)
[ -n "$nspace" ] || fail "user 1001 has no launch?"
steal 'the variables of his launch' "PMIX_NAMESPACE=$nspace" PMIX_RANK=0 "DYAD_GUEST_OF=0@$nspace"

for user in 1001 1002; do
    as $user touch "$WORK/home.$user/end"
done
for pid in "${USERS[@]}"; do
    wait "$pid" || fail "a job beside another user's ended with status $?"
done
nothing_left
for user in 1001 1002; do
    for node in x y; do
        [ "$(node_exec n0 cat "$SSD/$user.x/only.$user")" = "of $user" ] || fail "only.$user is not what was written"
        [ -z "$(node_exec n0 find "$SSD/$user.$node" ! -user $user)" ] || fail "user $user has got files of somebody else"
    done
done
