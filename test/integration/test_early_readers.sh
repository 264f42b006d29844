#!/bin/bash
# Readers that open a file before its writers, on several nodes, have closed it get all of it: on another node, and on the
# nodes of those who have closed it first.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
cat >"$WORK/early.py" <<'EOT'
import os, random, sys, time
W, SSD, rounds = os.environ["W"], os.environ["SSD"], int(os.environ["ROUNDS"])
me, n = int(os.environ["PMIX_RANK"]), int(sys.argv[1])  # the same program: the same arguments
writers = n - 1                           # the last rank only reads
rng = random.Random(int(os.environ["SEED"]))  # the same in all ranks

def flag(name):
    open(f"{W}/flag.{name}", "x").close()

def sync(name, ranks):
    flag(f"{name}.{me}")
    while not all(os.path.exists(f"{W}/flag.{name}.{r}") for r in range(ranks)):
        time.sleep(0.0005)

def pattern(rank, k):
    return bytes([65 + (rank * 7 + k) % 50]) * 40

def check(path, want, when):
    with open(path, "rb") as f:
        have = f.read()
    if have != want:
        pieces = [have[i:i + 40] == want[i:i + 40] for i in range(0, len(want), 40)]
        raise AssertionError((path, when, how, order, pause, len(have), len(want), pieces))

for k in range(rounds):
    name, records = f"f{k}", rng.randint(1, 5)
    path = f"{SSD}/{name}"
    how = rng.choice(("all create", "one empties"))
    order = rng.sample(range(writers), writers) if rng.random() < 0.7 else None
    pause = rng.choice((0, 0.002, 0.03))
    want = b"".join(pattern(r, j) for j in range(records) for r in range(writers))
    sync(f"{name}.begin", n)
    if me == writers:
        if rng.random() < 0.5:
            time.sleep(pause)
        check(path, want, "at once")
    else:
        rng.random()
        if how == "all create":
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        else:
            if me == 0:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
                flag(f"{name}.made")
            else:
                while not os.path.exists(f"{W}/flag.{name}.made"):
                    time.sleep(0.0005)
                fd = os.open(path, os.O_RDWR)
        sync(f"{name}.open", writers)
        for j in range(records):
            os.pwrite(fd, pattern(me, j), 40 * (j * writers + me))
        for i, turn in enumerate(order or ()):
            if turn == me:
                if i > 0:
                    time.sleep(pause)    # so that who is too early has the time to be
                break
            while not os.path.exists(f"{W}/flag.{name}.closed.{turn}"):
                time.sleep(0.0005)
        os.close(fd)
        flag(f"{name}.closed.{me}")
        check(path, want, "closed")
    sync(f"{name}.end", n)
open(f"{W}/ok.{me}", "x").close()
EOT
case $LEVEL in short) rounds=15 ;; long) rounds=150 ;; *) rounds=2000 ;; esac
seed=${EARLY_SEED:-$RANDOM}
say "seed $seed"
plain=("${JOB_ENV[@]}")
JOB_ENV+=("W=$WORK" "SSD=$SSD" "SEED=$seed" "ROUNDS=$rounds")
for nodes in "0 1 2" "0 0 1 2" "0 1 0" "0 0 1 1 2" "0 0 1"; do
    clean_ssd
    rm -f "$WORK"/flag.* "$WORK"/ok.*
    words=() rank=0 n=$(wc -w <<<"$nodes")
    for node in $nodes; do
        [ "$rank" = 0 ] || words+=(--)
        words+=("1@n$node" "$PYTHON" "$WORK/early.py" "$n")
        rank=$((rank + 1))
    done
    job_ok 120 "${words[@]}"
    [ "$(find "$WORK" -name 'ok.*' | wc -l)" = "$n" ] || fail "nodes $nodes: not all ranks came to the end"
done
[ -x "$PROGS/mpi_file" ] || { say "no Open MPI headers: without MPI-IO"; exit 0; }
for io in romio321 ompio; do
    JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io" OMPI_MCA_fbtl_posix_write_datasieving=0)
    for where in "2@n0,n1 1@n2" "4@n0,n1 2@n2" "2@n0 1@n1" "2@n0,n1 1@n0"; do
        for how in "at 1000 37" "all 100000 9"; do
            [ "$LEVEL" != short ] || [ "$how" = "at 1000 37" ] || continue
            read -r first last <<<"$where"
            clean_ssd
            # shellcheck disable=SC2086
            job_ok 60 "$first" "$PROGS/mpi_file" "$SSD/f" $how "${last%@*}" -- "$last" "$PROGS/mpi_file" "$SSD/f" $how "${last%@*}"
            grep -q ' ranks, 0 bad' "$OUT" || fail "$io $where $how: $(cat "$OUT")"
        done
    done
done
! grep 'was written here and by' "$LOG" || fail "a conflict"
