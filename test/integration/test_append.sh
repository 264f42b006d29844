#!/bin/bash
# Processes of two and three nodes append to one file at once (progs/append.c), by every call that does, and shells
# by ">>": each record is there once, whole, those of one writer in their order, and each of them found its own at the
# place that it was told; also to a file that was there before.
# DYAD_TEST_LEVEL=long: all ways on both; soak: 10 times.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
JOB_ENV+=("W=$WORK" "SSD=$SSD" "APPEND=$PROGS/append" DYAD_TIMEOUT=20)

# check.py FILE BEGIN RANKS THREADS COUNT
cat >"$WORK/check.py" <<'EOT'
import os, sys
path, begin, ranks, threads, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
with open(path, newline="") as f:
    have = f.read()
assert have.startswith(begin), "what was there before"
writers = {}
for line in have[len(begin):].splitlines():
    try:
        rank, thread, i, dots = line.split(" ")
    except ValueError:
        at = have.index("\n" + line + "\n")
        raise AssertionError((os.environ["PMIX_RANK"], at, have[max(0, at - 300):at + 300]))
    length = int(i) * 37 + int(rank) * 11
    assert dots == "." * (length % 300), line
    writers.setdefault((int(rank), int(thread)), []).append(int(i))
for rank in range(ranks):
    for thread in range(threads):
        mine = writers.pop((rank, thread), [])
        assert mine == list(range(count)), (os.environ["PMIX_RANK"], rank, thread, mine, os.stat(path), len(have))
assert not writers, writers
EOT
cat >"$WORK/rank.sh" <<'EOT'
# rank.sh HOW BEGIN RANKS COUNT
me=$PMIX_RANK
sync() {
    : >"$W/at.$1.$me"
    for ((r = 0; r < ranks; r++)); do
        until [ -e "$W/at.$1.$r" ]; do sleep 0.005; done
    done
}
how=$1 begin=$2 ranks=$3 count=$4 threads=1
[ $me != 0 ] || [ -z "$begin" ] || printf %s "$begin" >"$SSD/log"
sync begin
case $how in
shell) # its own output, and that of programs that it starts
    for ((i = 0; i < count; i++)); do
        dots=$(((i * 37 + me * 11) % 300))
        case $((i % 3)) in
        0) printf "%s 0 %s %${dots}s\n" $me $i "" | tr " " "." | sed 's/\./ /; s/\./ /; s/\./ /' ;;
        1) echo "$me 0 $i $(head -c $dots /dev/zero | tr '\0' .)" ;;
        2) "$APPEND" "$SSD/log" stdout $me 1 $i ;;
        esac || exit 1
    done >>"$SSD/log"
    ;;
stdout) "$APPEND" "$SSD/log" stdout $me "$count" >>"$SSD/log" ;;
*) "$APPEND" "$SSD/log" "$how" $me "$count" ;;
esac || exit 1
[ $how != threads ] || threads=3
sync end
"$PYTHON" "$W/check.py" "$SSD/log" "$begin" "$ranks" $threads "$count"
EOT
JOB_ENV+=("PYTHON=$PYTHON")
case $LEVEL in short) rounds=1 hows="write stream shell" ;; soak) rounds=10 ;; *) rounds=1 ;; esac
: "${hows:=write writev pwrite flag stream dprintf stdout threads shell again}"
for ((round = 0; round < rounds; round++)); do
    for how in $hows; do
        for begin in "" $'first\n'; do
            for where in 2@n0,n1 5@n0,n1,n2; do
                [ $where != 5@n0,n1,n2 ] || [ "$how" != again ] || continue # docs/semantics.md: that may fail
                rm -f "$WORK"/at.*
                : >"$LOG"
                job 60 "$where" bash "$WORK/rank.sh" "$how" "$begin" "${where%%@*}" 20 ||
                    fail "$how, $where, \"$begin\": status $?: $(cat "$OUT")"
                ! grep "error:" "$LOG" || fail "$how, $where: that is no mishap"
                clean_ssd
            done
        done
    done
done
say "no record is lost, torn or in another place"
