# shellcheck shell=bash disable=SC2016,SC2034
# steps.sh - what the ranks of a job say to each other and to the script, and how long their steps took; sourced after lib.sh
#
# A rank runs bash -c "$RANK"'...', and finds $WORK in its environment as W. What has happened is a file there, which all
# nodes see: wait_for NAME; made NAME. timed NAME COMMAND ARG... notes how long that took, and ends the rank if it fails.
RANK='wait_for() { until [ -e "$W/$1" ]; do sleep 0.05; done; }
made() { : >"$W/$1"; }
timed() {
    local begin=$EPOCHREALTIME name=$1
    shift
    "$@" || { echo "$name: status $?" >&2; exit 1; }
    echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$W/took.$name.$PMIX_RANK"
}
set -e
'

# took NAME SECONDS: every rank that has timed it was within this bound.
took() {
    local file seconds
    compgen -G "$WORK/took.$1.*" >/dev/null || fail "nobody says how long $1 took"
    for file in "$WORK/took.$1".*; do
        seconds=$(cat "$file")
        say "${file##*/took.}: $seconds s"
        awk "BEGIN {exit !($seconds <= $2)}" || fail "$1 took $seconds s, more than $2 s"
    done
}
