#!/bin/bash
# Each case of `conform` native and below the preload: as a rank's first process, and as a guest. The native
# run is the oracle; "expected" holds the differences that are meant. As root: also as an ordinary user.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/compare.sh"
need mpirun

mkdir "$WORK/native" "$WORK/rank" "$WORK/guest" "$WORK/tmp"
export TMPDIR=$WORK/tmp

# A name that begins with "user": not root, where there is a root to drop.
USER_ID=65534
as_user=(setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups env "HOME=$WORK/user.tmp" "TMPDIR=$WORK/user.tmp")
with_user=
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    mkdir "$WORK/user_native" "$WORK/user_rank" "$WORK/user.tmp"
    chown "$USER_ID:$USER_ID" "$WORK"/user*
    if "${as_user[@]}" test -x "$CONFORM" -a -r "$PRELOAD"; then with_user=1; fi
fi
[ -n "$with_user" ] || say "not as another user: not root, or the build tree is not for all to read"

# native NAME: past the library; what it prints goes to NAME.json.
native() {
    local name=$1 as=()
    [[ $name != user* ]] || as=("${as_user[@]}")
    "${as[@]}" "$CONFORM" --all "$WORK/$name" "${CASES:-}" >"$WORK/$name.json" </dev/null
}

# preloaded NAME PROGRAM...: one rank.
preloaded() {
    local name=$1 as=() log=$LOG
    shift
    own_tmpdir "$WORK/tmp/mpi.$name"
    [[ $name != user* ]] || { as=("${as_user[@]}") log=$WORK/user.tmp/dyad.log; own_tmpdir "$WORK/user.tmp/mpi"; }
    # Nothing is waited for: a case that opens what is missing gets its error at once.
    timeout -k 5 600 "${as[@]}" mpirun --oversubscribe "${OWN_TMPDIR[@]}" -n 1 -x "LD_PRELOAD=$PRELOAD" -x "DYAD_PATH=$WORK/$name" -x DYAD_WAIT=none \
        -x "DYAD_LOG_FILE=$log" -x TMPDIR "$@" >"$WORK/$name.json" 2>"$WORK/job.$name.err" </dev/null
}

# All at once: most of the time they wait. The jobs do not know each other.
begin=$EPOCHREALTIME
native native &
native=$!
if [ -n "$with_user" ]; then
    native user_native &
    user_native=$!
    preloaded user_rank "$CONFORM" --all "$WORK/user_rank" "${CASES:-}" &
    user_rank=$!
fi
preloaded rank "$CONFORM" --all "$WORK/rank" "${CASES:-}" &
rank=$!
# shellcheck disable=SC2016
preloaded guest bash -c '"$0" --all "$1" "$2"; exit $?' "$CONFORM" "$WORK/guest" "${CASES:-}" &
guest=$!
wait $native || fail "the native run: status $?"
wait $rank || fail "the run as a rank's first process: status $?"
wait $guest || fail "the run as a guest: status $?"
if [ -n "$with_user" ]; then
    wait $user_native || fail "the native run as another user: status $?"
    wait $user_rank || fail "the run as another user: status $?"
fi
say "$(wc -l <"$WORK/native.json") cases, natively and preloaded: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $begin}") s"

compare native rank guest
[ -z "$with_user" ] || compare user_native user_rank
