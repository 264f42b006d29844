#!/bin/bash
# What another user of the node has made, or can change, is named by dyad-run --check, before a job is started with it.
. "$(dirname "$0")/../cluster/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
need setpriv
chmod go+rx "$WORK"
stranger=(setpriv --reuid 61234 --regid 61234 --clear-groups)
neighbour=(setpriv --reuid 61235 --regid 61235 --clear-groups)
"${stranger[@]}" test -x "$WORK" || skip "another user does not reach $WORK"
export UCX_NET_DEVICES=lo
: >"$WORK/said"

# unsafe WHAT ARGUMENT...: it ends with 1, and says WHAT; whatever was there before is there, and nothing else.
unsafe() {
    local what=$1
    shift
    check 1 "$@"
    grep -q "^unsafe on .*$what" "$WORK/said" || fail "$* says $(cat "$WORK/said"), not: $what"
}

check() {
    local status=$1 found=0 before
    shift
    before=$(find "$WORK" ! -path "$WORK/said" -printf '%p %y %U %m %T@\n' | sort)
    "${as[@]}" "$BIN/dyad-run" --check "$@" >"$WORK/said" 2>&1 || found=$?
    [ $found = "$status" ] || fail "$* ends with $found, not $status: $(cat "$WORK/said")"
    [ "$before" = "$(find "$WORK" ! -path "$WORK/said" -printf '%p %y %U %m %T@\n' | sort)" ] || fail "$* has changed something"
}

# The user is root, and then one whose files root's are not.
for user in root neighbour; do
    say "as $user"
    as=(env)
    [ $user = root ] || as=("${neighbour[@]}")
    rm -rf "$WORK/all" "$WORK/own" "$WORK/theirs"
    mkdir -m 777 "$WORK/all"
    mkdir -m 755 "$WORK/own" "$WORK/theirs"
    chown 61234 "$WORK/theirs"
    [ $user = root ] || chown 61235:61235 "$WORK/own"
    "${as[@]}" mkdir -m 700 "$WORK/own/dmd" "$WORK/own/session" "$WORK/all/dmd"

    check 0 --dmd "$WORK/own/dmd" --session-dir "$WORK/own/session" --log-file "$WORK/own/log"
    ! grep -q unsafe "$WORK/said" || fail "$(cat "$WORK/said")"

    # another user's directory, and what is in one, or below one in which others can write
    chmod 777 "$WORK/theirs"
    unsafe "it is of user 61234" --dmd "$WORK/theirs"
    "${as[@]}" mkdir -m 700 "$WORK/theirs/dmd"
    unsafe "other users can move it away.* $WORK/theirs is of user 61234" --dmd "$WORK/theirs/dmd"
    unsafe "other users can move it away.* $WORK/all is of user 0, mode 0777" --dmd "$WORK/all/dmd"
    unsafe "other users can move it away.* $WORK/all is of user 0, mode 0777" --session-dir "$WORK/all/dmd"
    unsafe "other users can move it away.* $WORK/all is of user 0, mode 0777" --log-file "$WORK/all/log"
    "${stranger[@]}" mv "$WORK/all/dmd" "$WORK/all/moved" # as it says
    "${stranger[@]}" mkdir -m 777 "$WORK/all/dmd"
    unsafe "it is of user 61234" --dmd "$WORK/all/dmd"
    unsafe "must be yours and closed to others (it is of user 61234" --session-dir "$WORK/all/dmd"

    # .dyad was made by another, or is a link
    chmod 777 "$WORK/own/dmd"
    "${stranger[@]}" mkdir -m 700 "$WORK/own/dmd/.dyad"
    chmod 700 "$WORK/own/dmd"
    unsafe "$WORK/own/dmd/.dyad: it is of user 61234" --dmd "$WORK/own/dmd"
    rmdir "$WORK/own/dmd/.dyad"
    "${as[@]}" ln -s "$WORK/own/session" "$WORK/own/dmd/.dyad"
    unsafe "$WORK/own/dmd/.dyad: it is no directory" --dmd "$WORK/own/dmd"
    rm "$WORK/own/dmd/.dyad"

    # links that another has put where all can, as in /tmp
    chmod 1777 "$WORK/all"
    "${stranger[@]}" ln -s "$WORK/own/dmd" "$WORK/all/link"
    unsafe "it is a symbolic link of user 61234" --dmd "$WORK/all/link"
    unsafe "it is a symbolic link of user 61234" --session-dir "$WORK/all/link"
    "${as[@]}" touch "$WORK/own/log"
    chmod 600 "$WORK/own/log"
    "${stranger[@]}" ln -s "$WORK/own/log" "$WORK/all/log"
    unsafe "it is a symbolic link of user 61234" --log-file "$WORK/all/log"
    # a log file of another's, in which all can write: what the kernel lets be opened
    "${stranger[@]}" sh -c 'umask 0; : >"$1"' sh "$WORK/all/theirs.log"
    unsafe "it is of user 61234" --log-file "$WORK/all/theirs.log"
    "${stranger[@]}" mkfifo -m 666 "$WORK/all/fifo"
    unsafe "it is neither a file nor a terminal" --log-file "$WORK/all/fifo"
    # a name that would tell the terminal something
    "${stranger[@]}" mkdir "$WORK/all/"$'\e[2J'
    "${stranger[@]}" chmod 777 "$WORK/all/"$'\e[2J'
    unsafe '\\x1b\[2J' --dmd "$WORK/all/"$'\e[2J'
done
