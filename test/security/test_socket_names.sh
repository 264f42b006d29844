#!/bin/bash
# Another user of the node holds the names of the members' sockets: of some ranks before they begin, of another one when that
# was killed. The job does what it does otherwise.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
[ -n "$PYTHON" ] || skip "needs python3"
[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
need setpriv
cluster_up 2
mkdir -m 777 "$WORK/stranger"
install -m 644 "$(dirname "$0")/squat_names.py" "$WORK/squat_names.py"
mkfifo "$WORK/on"
JOB_ENV+=("W=$WORK" "SSD=$SSD" "BIN=$BIN" DYAD_INLINE_MAX=0 DYAD_JOIN_TIMEOUT=3 DYAD_TIMEOUT=20)
printf '%s' "$RANK" >"$WORK/rank.sh"
RANK+='runs() { "$BIN/dyad-run" --dmd "$SSD" -- bash -c ". \"\$W/rank.sh\"; $1"; }
'

node_exec n0 setpriv --reuid 61234 --regid 61234 --clear-groups \
    "$PYTHON" "$WORK/squat_names.py" "$WORK/stranger/names" <"$WORK/on" >"$WORK/squat.out" 2>&1 &
SQUATTER=$!
exec 3>"$WORK/on"

# Rank 0 is killed; 1 takes its files over; 2, of another node, reads them. Each command of a shell is a guest of its rank.
export START=none
job_begin 100 \
    1@n0 bash -c "$RANK"'runs '\''echo of 0 >"$SSD/f0"; cat "$SSD/f1" >"$W/got.0"; cat "$SSD/f2" >>"$W/got.0"; made flag.0; wait_for flag.kill; kill -9 $$'\''; true' -- \
    1@n0 bash -c "$RANK"'wait_for stranger/names.squatted; runs '\''echo of 1 >"$SSD/f1"; cat "$SSD/f0" "$SSD/f2" >"$W/got.1"; made flag.1
        wait_for flag.read; cat "$SSD/f3" >"$W/got.late"; made ok.late'\' -- \
    1@n1 bash -c "$RANK"'wait_for stranger/names.squatted; runs '\''echo of 2 >"$SSD/f2"; cat "$SSD/f1" >"$W/got.2"; made flag.2
        wait_for stranger/names.again; cat "$SSD/f0" >"$W/got.dead"; echo of 3 >"$SSD/f3"; made flag.read; wait_for flag.over'\'
for rank in 0 1 2; do until_true 40 "rank $rank has exchanged files" test -e "$WORK/flag.$rank"; done
grep -c . "$WORK/stranger/names.squatted" | grep -qx 16 || fail "the stranger did not get its names: $(cat "$WORK/squat.out")"

node_exec n0 "$BIN/dyad-dht-dump" --list >"$WORK/list" 2>&1 || fail "no list: $(cat "$WORK/list")"
say "$(cat "$WORK/list")"
[ "$(wc -l <"$WORK/list")" -eq 1 ] && grep -q ' ranks 0,1 here' "$WORK/list" || fail "the list has other members than there are"
node_exec n0 "$BIN/dyad-dht-dump" >"$WORK/dump" 2>&1 || fail "no dump: $(cat "$WORK/dump")"
[ "$(grep -c '^ *[012] .* running ' "$WORK/dump")" -eq 3 ] || fail "not all ranks are in the dump: $(cat "$WORK/dump")"

: >"$WORK/flag.kill"
until_true 30 "the stranger has the dead rank's name" test -e "$WORK/stranger/names.again"
until_true 40 "the dead rank's file is read" test -e "$WORK/flag.read"
: >"$WORK/flag.over"
until_true 40 "the last file is read" test -e "$WORK/ok.late"
exec 3>&-
wait $SQUATTER || fail "the stranger has failed: $(cat "$WORK/squat.out")"
job_over 60 late
[ "$(cat "$WORK/got.0" "$WORK/got.1" "$WORK/got.2" "$WORK/got.dead" "$WORK/got.late" | tr '\n' ,)" = \
    "of 1,of 2,of 0,of 2,of 1,of 0,of 3," ] || fail "wrong bytes: $(cat "$WORK"/got.*)"
grep -q "this one serves 1 files" "$LOG" || fail "nobody has taken over"
! grep -q 'cannot be reached on this node' "$LOG" || fail "a process did not reach its member"
