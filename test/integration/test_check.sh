#!/bin/bash
# dyad-dht-dump --check on a live job: silent about what is right, also while files are published, removed, renamed and
# touched all the time; and it names each file that its owner does not have as published, and those whose owner is gone.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
DUMP=$BIN/dyad-dht-dump

# Rank 0 publishes and stays. Rank 1 is killed below: its launcher sees a shell that is none of ours. Rank 2 never stops.
job_begin 150 1@n0 sh -c 'i=0; while [ $i -lt 20 ]; do i=$((i + 1)); echo "file $i" >"$0/made.$i"; done
    mkdir "$0/dir" && echo in >"$0/dir/in" && ln -s made.1 "$0/link" && echo gone >"$0/gone" && rm "$0/gone"
    : >"$1/made"; until [ -e "$1/go" ]; do sleep 0.1; done' "$SSD" "$WORK" -- \
    1@n1 env -u LD_PRELOAD sh -c 'LD_PRELOAD=$2 sh -c "echo x >\"\$0/killed\"; echo \$\$ >\"\$1/pid\"
        until [ -e \"\$1/go\" ]; do sleep 0.1; done" "$0" "$1"; until [ -e "$1/go" ]; do sleep 0.1; done' \
    "$SSD" "$WORK" "$PRELOAD" -- \
    1@n2 sh -c 'n=0; until [ -e "$1/quiet" ]; do n=$((n + 1))
        echo $n >"$0/busy.$((n % 5))"; echo $n >>"$0/grows"; echo $n >"$0/new.$n"; mv "$0/new.$n" "$0/moved"
        [ $((n % 7)) -ne 0 ] || { touch "$0/grows"; rm "$0/moved"; }; done
        : >"$1/is_quiet"; until [ -e "$1/go" ]; do sleep 0.1; done' "$SSD" "$WORK"
ready() {
    kill -0 "$JOB_PID" 2>/dev/null || fail "the job ended early"
    [ -e "$WORK/made" ] && [ -s "$WORK/pid" ]
}
until_true 30 "files are published" ready
# check NODE STATUS [ARG...]: what it prints is in $WORK/check.
check() {
    local node=$1 expected=$2 status=0
    shift 2
    node_exec "$node" env DYAD_PATH="$SSD" timeout -k 2 40 "$DUMP" --check "$@" >"$WORK/check" 2>"$WORK/check.err" || status=$?
    [ $status -eq "$expected" ] || fail "status $status, not $expected: $(cat "$WORK/check" "$WORK/check.err")"
}
for i in $(seq 20); do
    check "n$((i % 3))" 0
done
tail -1 "$WORK/check"
: >"$WORK/quiet"
until_true 20 "rank 2 has stopped" test -e "$WORK/is_quiet"
check n0 0
[ "$(cat "$WORK/check")" = "$(sed -n 's/^\([0-9]* names were checked, 0 are wrong\)$/\1/p' "$WORK/check")" ] ||
    fail "at rest: $(cat "$WORK/check")"

# Behind the library's back.
node_exec n0 rm "$SSD/made.3"
check n1 3
grep -q '^made\.3: rank 0, its owner: it is not on its disk$' "$WORK/check" || fail "removed: $(cat "$WORK/check")"
node_exec n0 truncate -s 2 "$SSD/made.4"
node_exec n0 touch -d 2001-01-01 "$SSD/made.5"
node_exec n0 sh -c 'rm -r "$0/link" && mkdir "$0/link"' "$SSD"
node_exec n0 sh -c 'cp -p "$0/made.6" "$0/made.6+" && mv "$0/made.6+" "$0/made.6"' "$SSD"
check n2 3
grep -q '^made\.4: rank 0, its owner: it has 2 bytes on its disk, published with 7$' "$WORK/check" || fail "cut: $(cat "$WORK/check")"
grep -q '^made\.5: rank 0, its owner: it was modified at 978' "$WORK/check" || fail "touched: $(cat "$WORK/check")"
grep -q '^made\.6: rank 0, its owner: it is another one on its disk' "$WORK/check" || fail "replaced: $(cat "$WORK/check")"
grep -q '^link: rank 0, its owner: it is a directory on its disk, published as a symbolic link$' "$WORK/check" ||
    fail "another type: $(cat "$WORK/check")"
grep -q '^[0-9]* names were checked, 5 are wrong$' "$WORK/check" || fail "others: $(cat "$WORK/check")"
check n0 3 --json
"$PYTHON" - "$WORK/check" <<'PY' || fail "JSON: $(cat "$WORK/check")"
import json, sys

result = json.load(open(sys.argv[1]))
wrong = {m["upath"]: m for m in result["mismatches"]}
assert sorted(wrong) == ["link", "made.3", "made.4", "made.5", "made.6"], wrong
assert wrong["made.3"]["ranks"] == [0] and result["unreachable"] == [] and result["checked"] > 20, result
PY

# The others go on without rank 1; its file has no owner, and everything else is where it belongs.
node_exec n1 kill -9 "$(cat "$WORK/pid")"
gone() {
    node_exec n0 env DYAD_PATH="$SSD" timeout -k 2 20 "$DUMP" --json >"$WORK/json" 2>/dev/null || true
    grep -q '"rank": 1, *$' "$WORK/json" && grep -q '"error": ' "$WORK/json"
}
until_true 20 "rank 1 is known to be dead" gone
check n0 3
grep -q '^killed: rank 1, its owner, does not answer$' "$WORK/check" || fail "a dead owner: $(cat "$WORK/check")"
grep -q '^[0-9]* names were checked, 6 are wrong$' "$WORK/check" || fail "with a dead rank: $(cat "$WORK/check")"
: >"$WORK/go"
status=0
job_wait || status=$? # mpirun calls the death of a process that knew it an abnormal end
[ $status -ne 124 ] && [ $status -ne 137 ] || fail "the job did not end"
sanitizers_silent
nothing_left
