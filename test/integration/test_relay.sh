#!/bin/bash
# One large file to many nodes: those that read it pass it on, and its owner sends it twice. Right bytes also if the one that
# passes it on is killed, stopped, or has an older version by then, and if the owner is killed.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
crash_build
cluster_up 8
export X=$PROGS/xfer
SIZE=$((16 << 20))
CHUNKS=$((SIZE / (64 << 10)))
BASE_ENV=("${JOB_ENV[@]}" DYAD_STATS=1 DYAD_CHUNK_SIZE=64K DYAD_CHUNKS=2 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_LOG=debug
    "W=$WORK" "SSD=$SSD" "SIZE=$SIZE")
JOB_ENV=("${BASE_ENV[@]}")

# served RANK: bytes, as its member says at its end.
served() {
    sed -n "s/.*rank $1\].*statistics: .* served \([0-9]*\) bytes.*/\1/p" "$LOG" | tail -n 1
}

# Seven readers at once: they wait before the file is there, and get it while those before them get it. The
# patience is long: a reader whose relay does not answer within it asks the owner for the rest, and the machine may stand still.
JOB_ENV=("${JOB_ENV[@]/DYAD_PEER_TIMEOUT=1/DYAD_PEER_TIMEOUT=10}")
job_ok 60 1@n0 bash -c "$RANK"'"$X" write -d "$SSD" -p large -s $SIZE' -- \
    7@n1,n2,n3,n4,n5,n6,n7 "$X" read -d "$SSD" -p large -s $SIZE
same_sums 1 n0 n1 n2 n3 n4 n5 n6 n7
say "of $SIZE bytes rank 0 served $(served 0)"
[ "$(served 0)" -le $((2 * SIZE)) ] || fail "the owner sent its file more than twice"
total=0
for rank in 0 1 2 3 4 5 6 7; do total=$((total + $(served $rank))); done
[ "$total" -eq $((7 * SIZE)) ] || fail "$total bytes were served in place of $((7 * SIZE))"
grep -q 'is to get "large.* from rank' "$LOG" || fail "nobody was sent to another reader"

# The third reader is sent to the first, which is killed in the midst of it; stopped; or the owner is killed.
READ='"$X" read -d "$SSD" -p large -s $SIZE'
begin_case() {
    rm -f "$WORK"/{flag,pid,ok}.* "$LOG"
    clean_ssd
    JOB_ENV=("${BASE_ENV[@]}" "$@")
}
# three FIRST-THEN WATCH: what the first reader does when it has the file; beside it, on its node, runs WATCH, without the library.
three() {
    job_killed 40 third \
        1@n0 bash -c "$RANK"'"$X" write -d "$SSD" -p large -s $SIZE; wait_for ok.third' -- \
        1@n1 bash -c "$RANK$READ; made flag.first; $1" -- \
        1@n2 bash -c "$RANK"'wait_for flag.first; '"$READ; made flag.second; wait_for ok.third" -- \
        1@n3 bash -c "$RANK"'wait_for flag.second; wait_for flag.go; '"$READ; made ok.third" -- \
        1@n1 env -u LD_PRELOAD bash -c "$RANK$2"
}
begin_case DYAD_CRASH=1/relay-asked:20
three 'wait_for ok.third' 'made flag.go; wait_for ok.third'
same_sums 1 n0 n2 n3
grep -q 'to which .* had sent this rank, is gone' "$LOG" || fail "the third reader did not turn to the owner"

begin_case
three 'echo $$ >"$W/pid.1.new"; mv "$W/pid.1.new" "$W/pid.1"; kill -STOP $$; wait_for ok.third' \
    'wait_for pid.1; until grep -q "^State:.T" "/proc/$(<"$W/pid.1")/status"; do sleep 0.02; done; made flag.go
     wait_for ok.third; kill -CONT "$(<"$W/pid.1")"'
same_sums 1 n0 n1 n2 n3

# The owner dies when it has named a relay to the third reader, which gets the file all the same: from that one.
begin_case "DYAD_CRASH=0/serve-asked:$((2 * CHUNKS + 2))"
three 'wait_for ok.third' 'made flag.go; wait_for ok.third'
same_sums 1 n1 n2 n3

# A file that is written again and again while seven read it: what they have is all of one version.
begin_case
AGAIN='import os, sys
path, size = os.environ["SSD"] + "/again", int(os.environ["SIZE"]) // 4
def write(number):
    with open(path + ".new", "wb") as f:
        f.write(bytes([number]) * size)
    os.rename(path + ".new", path)
if sys.argv[1] == "write":
    for number in range(1, 41):
        write(number)
else:
    seen = 0
    while seen < 40:
        with open(path, "rb") as f:
            got = f.read()
        assert len(got) == size and got == got[:1] * size, (len(got), sorted(set(got)))
        assert got[0] >= seen, (seen, got[0])
        seen = got[0]
'
job_ok 90 1@n0 "$PYTHON" -c "$AGAIN" write -- 7@n1,n2,n3,n4,n5,n6,n7 "$PYTHON" -c "$AGAIN" read
say "$(grep -c 'is to get "again" from rank' "$LOG") were sent to others in it"
