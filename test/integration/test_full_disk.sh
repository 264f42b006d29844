#!/bin/bash
# A consumer's disk without room for a small file: its open fails with ENOSPC, nothing is left of the attempt, and when
# there is room again the file comes.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2 16m

job_ok 60 1@n0 bash -c 'head -c 60000 /dev/zero | tr "\0" x >"$0/f"' "$SSD" -- \
    1@n1 bash -c 'cat "$0/no" 2>/dev/null # the first use makes the tables
        LD_PRELOAD= dd if=/dev/zero of="$0/.filler" bs=4k 2>/dev/null
        LC_ALL=C cat "$0/f" >"$1/got" 2>"$1/why" && exit 1
        ls -A "$0/.dyad/tmp" >"$1/left"
        LD_PRELOAD= rm "$0/.filler"
        cat "$0/f" >"$1/got"' "$SSD" "$WORK"
grep -q 'No space left on device' "$WORK/why" || fail "without room: $(cat "$WORK/why")"
[ ! -s "$WORK/left" ] || fail "left behind: $(cat "$WORK/left")"
[ "$(tr -d x <"$WORK/got" | wc -c)/$(wc -c <"$WORK/got")" = 0/60000 ] || fail "other bytes came"
grep -q 'make room there\|free some space there' "$LOG" || fail "people were not told"
