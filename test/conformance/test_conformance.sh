#!/bin/bash
# Each case of `conform` native and below the preload: as a rank's first process, and as a guest. The native
# run is the oracle; "expected" holds the differences that are meant.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/compare.sh"
need mpirun

mkdir "$WORK/native" "$WORK/rank" "$WORK/guest" "$WORK/tmp"
export TMPDIR=$WORK/tmp
"$CONFORM" --all "$WORK/native" "${CASES:-}" >"$WORK/native.json" </dev/null || fail "conform: $?"

# preloaded NAME PROGRAM...: one rank; what it prints goes to NAME.json.
preloaded() {
    local name=$1
    shift
    # Nothing is waited for: a case that opens what is missing gets its error at once.
    timeout -k 5 100 mpirun --oversubscribe -n 1 -x "LD_PRELOAD=$PRELOAD" -x "DYAD_PATH=$WORK/$name" -x DYAD_WAIT=none \
        -x "DYAD_LOG_FILE=$LOG" -x TMPDIR "$@" >"$WORK/$name.json" 2>"$WORK/job.$name.err" </dev/null
}

# Two jobs at once, which do not know each other.
begin=$EPOCHREALTIME
preloaded rank "$CONFORM" --all "$WORK/rank" "${CASES:-}" &
rank=$!
# shellcheck disable=SC2016
preloaded guest bash -c '"$0" --all "$1" "$2"; exit $?' "$CONFORM" "$WORK/guest" "${CASES:-}" &
guest=$!
wait $rank || fail "the run as a rank's first process: status $?"
wait $guest || fail "the run as a guest: status $?"
say "$(wc -l <"$WORK/native.json") cases, natively and twice preloaded: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $begin}") s"

compare native rank guest
