#!/bin/bash
# Another user of the node can write where the session directory lies, moves it away under a running job, and puts something
# else there: that user gets nothing, and is not believed.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
need setpriv
cluster_up 2
chmod go+rx "$WORK"
mkdir "$WORK/shared"
chmod 777 "$WORK/shared"
SESSION=$WORK/shared/session
JOB_ENV+=("DYAD_SESSION_DIR=$SESSION" "W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=30)
stranger=(setpriv --reuid 61234 --regid 61234 --clear-groups)
"${stranger[@]}" test -x "$WORK/shared" || skip "another user does not reach $WORK"
exchange='exchange() { echo "$1 of $PMIX_RANK" >"$SSD/$1.$PMIX_RANK"; read -r line <"$SSD/$1.$((1 - PMIX_RANK))" && [ "$line" = "$1 of $((1 - PMIX_RANK))" ]; }; '

# subs: the names of the directories in the session directory.
subs() { (cd "$SESSION.away" && ls -d -- */); }

# put plain: a directory of the stranger's, with what the former one had in it, as far as that can be known. put link: a link to
# another directory of the user's.
put() {
    local name
    "${stranger[@]}" mv "$SESSION" "$SESSION.away"
    ! "${stranger[@]}" ls "$SESSION.away" 2>/dev/null || fail "another user can read it"
    THERE=$SESSION
    if [ "$1" = link ]; then
        THERE=$WORK/private
        mkdir -m 700 "$THERE"
        "${stranger[@]}" ln -s "$THERE" "$SESSION"
        for name in $(subs); do mkdir -m 700 "$THERE/$name"; done
        return
    fi
    "${stranger[@]}" mkdir "$SESSION"
    for name in $(subs); do
        "${stranger[@]}" mkdir "$SESSION/$name"
        "${stranger[@]}" ln -s 0123456789abcdef "$SESSION/$name/id"
        "${stranger[@]}" ln -s 64 "$SESSION/$name/ranks"
    done
    "${stranger[@]}" chmod -R 777 "$SESSION"
}

nothing_there() {
    local found
    found=$(find "$THERE" -mindepth 1 ! -uid 61234 ! \( -type d -path "$WORK/private/*" \))
    [ -z "$found" ] || fail "something was put there: $found"
}

for kind in plain link; do
    say "$kind"
    rm -rf "$SESSION" "$SESSION.away" "$WORK"/{flag,go}.*
    clean_ssd
    : >"$LOG"
    launch 60 2@n0,n1 bash -c "$RANK$exchange"'exchange before || exit 8; made flag.$PMIX_RANK; wait_for go.on; exchange after || exit 9'
    for rank in 0 1; do until_true 30 "rank $rank has joined" test -e "$WORK/flag.$rank"; done
    grep -q "other users can move the session directory $SESSION away.*$WORK/shared is of user 0, mode 0777" "$LOG" || fail "nobody is warned"
    put $kind
    until_true 30 "it is noticed" grep -q "session directory $SESSION.* is not yours alone any more" "$LOG"
    : >"$WORK/go.on"
    launches_ok
    nothing_there
done

rm -rf "$SESSION" "$SESSION.away"
"${stranger[@]}" mkdir -m 777 "$SESSION"
THERE=$SESSION
: >"$LOG"
job_begin 60 1@n0 sh -c 'echo alone >"$SSD/alone"'
job_wait || say "the launch that comes later ends with status $?"
grep -q "session directory $SESSION belongs to user 61234" "$LOG" || fail "who comes later believes it"
nothing_there
