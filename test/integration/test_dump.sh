#!/bin/bash
# dyad-dht-dump on a live job: tables and JSON; entries, waiters, files and locks right.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
JOB_ENV+=(DYAD_INLINE_MAX=16K)
X=$PROGS/xfer
DUMP=$BIN/dyad-dht-dump

# Rank 0 publishes five files and stays; rank 2 reads one and stays; rank 1 waits for one that comes last.
job_begin 100 1@n0 "$X" write -d "$SSD" -p made -n 5 -s 12345 -e "$WORK/made" -h "$WORK/go" -- \
    1@n1 "$X" read -d "$SSD" -p last -s 100 -r "$WORK/waits" -- \
    1@n2 "$X" read -d "$SSD" -p made -n 1 -s 12345 -e "$WORK/read" -h "$WORK/last" -- \
    1@n2 sh -c 'until [ -e "$1" ]; do sleep 0.1; done; "$0" write -d "$2" -p last -s 100' "$X" "$WORK/go" "$SSD"
ready() {
    kill -0 "$JOB_PID" 2>/dev/null || fail "the job ended early"
    [ -e "$WORK/made" ] && [ -e "$WORK/waits" ] && [ -e "$WORK/read" ]
}
until_true 30 "files are made, rank 1 waits" ready
dump() {
    local node=$1
    shift
    node_exec "$node" env DYAD_PATH="$SSD" timeout -k 2 20 "$DUMP" "$@"
}
waits() {
    dump n0 --json --waiting >"$WORK/waiting.json" 2>"$WORK/dump.err" && grep -q 'last\.000000' "$WORK/waiting.json"
}
until_true 20 "the dump shows who waits" waits

dump n0 --json --entries >"$WORK/n0.json" || fail "dyad-dht-dump --json on n0: $?"
dump n2 --json --entries >"$WORK/n2.json" || fail "dyad-dht-dump --json on n2: $?"
dump n1 >"$WORK/table" || fail "dyad-dht-dump: $?"
dump n1 --entries >"$WORK/entries" || fail "dyad-dht-dump --entries: $?"
dump n1 --waiting >"$WORK/waiting" || fail "dyad-dht-dump --waiting: $?"
dump n1 --key made.000003 >"$WORK/key" || fail "dyad-dht-dump --key: $?"
: >"$WORK/go" && : >"$WORK/last"
job_end_ok 100

cat "$WORK/table" "$WORK/waiting"
"$PYTHON" - "$WORK" <<'PY' || fail "the dump is not right: $(head -c 3000 "$WORK/n0.json") $(cat "$WORK/waiting.json")"
import json, sys

work = sys.argv[1]
for node in "n0", "n2":
    shards = json.load(open(f"{work}/{node}.json"))["shards"]
    assert sorted(s["rank"] for s in shards) == [0, 1, 2, 3], shards
    hosts = {s["rank"]: s["host"].split("/")[0] for s in shards}
    assert hosts == {0: "n0", 1: "n1", 2: "n2", 3: "n2"}, hosts
    found = {}
    for shard in shards:
        assert shard["depth"] == 2 and shard["bins"] == 256, shard
        live = [e for e in shard["entries"] if e["state"] == "published"]
        assert shard["entries_count"] >= len(live), shard
        assert shard["inlined_files"] == len(live), shard
        assert shard["inlined_bytes"] >= 12345 * len(live) > 0 or not live, shard
        for entry in live:
            found.setdefault(entry["upath"], []).append((shard["rank"], entry))
    assert sorted(found) == [f"made.{i:06}" for i in range(5)], sorted(found)
    for name, places in found.items():
        # Two replicas, at exactly the ranks that the entry calls its homes.
        assert sorted(r for r, e in places) == sorted(places[0][1]["homes"]), (name, places)
        assert len(places) == 2, (name, places)
        for rank, entry in places:
            assert entry["owner"] == 0 and entry["size"] == 12345, entry
            assert entry["inlined"] is True, entry
waiting = [(s["rank"], w) for s in json.load(open(f"{work}/waiting.json"))["shards"]
           for w in s.get("waiting", [])]
mine = [(r, w) for r, w in waiting if w["upath"] == "last.000000"]
assert len(mine) == 1 and mine[0][0] == 1 and mine[0][1]["since"] >= 0, waiting
PY
grep -q 'n1' "$WORK/table" && grep -q '^ *RANK' "$WORK/table" || fail "the table: $(cat "$WORK/table")"
[ "$(grep -c 'made\.00000[0-4]' "$WORK/entries")" -eq 10 ] || fail "the entries: $(cat "$WORK/entries")"
grep -q 'last\.000000' "$WORK/waiting" || fail "who waits: $(cat "$WORK/waiting")"
grep -q 'made\.000003' "$WORK/key" && grep -qi 'owner' "$WORK/key" || fail "one key: $(cat "$WORK/key")"

# Two nodes write one file: what each has of it, who has locked what, and who waits for that.
cat >"$WORK/locks.py" <<'EOT'
import fcntl, os, time
me, work = int(os.environ["PMIX_RANK"]), os.environ["W"]

def wait(name):
    while not os.path.exists(f"{work}/{name}"):
        time.sleep(0.005)

fd = os.open(f"{os.environ['SSD']}/both", os.O_RDWR | os.O_CREAT, 0o644)
os.pwrite(fd, bytes([65 + me]) * 100 * (me + 1), 1000 * me)
open(f"{work}/opened.{me}", "x").close()
wait(f"opened.{1 - me}")
if me == 0:
    fcntl.lockf(fd, fcntl.LOCK_EX, 8, 0)
    open(f"{work}/locked", "x").close()
    wait("shown")
    fcntl.lockf(fd, fcntl.LOCK_UN, 8, 0)
else:
    wait("locked")
    fcntl.lockf(fd, fcntl.LOCK_SH, 20, 4)
os.close(fd)
EOT
JOB_ENV+=("W=$WORK" "SSD=$SSD")
job_begin 100 2@n0,n1 "$PYTHON" "$WORK/locks.py"
of_both() {
    kill -0 "$JOB_PID" 2>/dev/null || fail "the job ended early"
    dump n1 --key both >"$WORK/key" 2>"$WORK/dump.err" && grep -q 'has waited' "$WORK/key"
}
until_true 20 "the dump shows who waits for a lock" of_both
cat "$WORK/key"
dump n0 --json --key both >"$WORK/key.json" || fail "dyad-dht-dump --json --key: $?"
: >"$WORK/shown"
job_end_ok 100
grep -q '^lock: pid [0-9]* of rank 0 on n0 has bytes 0 to 7, to write$' "$WORK/key" || fail "who has a lock"
grep -q '^lock: pid [0-9]* of rank 1 on n1 has waited for [0-9.]*s for bytes 4 to 23, to read' "$WORK/key" || fail "who waits"
for part in "n0: 100 100" "n1: 1200 200"; do
    grep -q "^file: on ${part% *} bytes, open for writing by pid [0-9]*; on record: ${part##* } bytes in 1 ranges" \
        "$WORK/key" || fail "the file on ${part%%:*}"
done
"$PYTHON" - "$WORK/key.json" <<'PY' || fail "the key is not right: $(cat "$WORK/key.json")"
import json, sys

keys = {s["rank"]: s["key"] for s in json.load(open(sys.argv[1]))["shards"]}
assert sorted(w["rank"] for k in keys.values() for w in k["writers"]) == sorted([0, 1] * 2), keys
for rank, length in (0, 100), (1, 200):
    (file,) = keys[rank]["files"]
    assert file["written"] == file["written_here"] == {"ranges": 1, "bytes": length}, file
    assert file["size"] == 1000 * rank + length and not file["superseded"] and file["writer"], file
assert [(l["type"], l["begin"], l["end"], l["waits"]) for l in keys[0]["locks"]] == [("write", 0, 8, False)], keys
assert [(l["type"], l["begin"], l["end"], l["waits"], l["append"]) for l in keys[1]["locks"]] == [
    ("read", 4, 24, True, False)], keys
PY

# No session: an error that says so, at once.
status=0
dump n0 >"$WORK/none" 2>&1 || status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] && grep -qi session "$WORK/none" || fail "without a session: $status, $(cat "$WORK/none")"
