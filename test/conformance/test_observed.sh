#!/bin/bash
# What each case leaves, seen from another node: names, types, modes, sizes, times and contents, by lstat, open,
# read and readdir there, against what lies on the disk of the node where the case ran.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/compare.sh"
cluster_up 2

# Only the consumer's first line waits: it is for the end of the producer's last case.
JOB_ENV+=(DYAD_WAIT=done)
# shellcheck disable=SC2016
job 120 1@n0 bash -c '"$0" --all "$1" "$3" >"$2/ran.json" && "$0" --tree "$1" >"$2/there.json" && : >"$1/done"' \
    "$CONFORM" "$SSD" "$WORK" "${CASES:-}" -- \
    1@n1 bash -c 'cat "$1/done" && sed "s/^{\"path\":\"\([^\"]*\)\".*/\1/" "$2/there.json" |
        "$0" --observe "$1" >"$2/seen.json"' "$CONFORM" "$SSD" "$WORK" || fail "the job: status $?"

compare there seen
say "$(wc -l <"$WORK/there.json") files and directories of $(wc -l <"$WORK/ran.json") cases"
