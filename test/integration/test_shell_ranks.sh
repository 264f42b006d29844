#!/bin/bash
# Ranks that are shell scripts: children that write and read, and one that ends in exec.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
HERE=$SOURCE_DIR/test/integration/progs

job_ok 60 1@n0 "$HERE/shell_producer.sh" "$SSD" -- 1@n1 "$HERE/shell_consumer.sh" "$SSD"
grep -q 'producer: 8 files, 1000 lines' "$OUT" || fail "the answer did not arrive"

# A producer and a consumer that are siblings of one rank, whoever comes first, and the same in dash.
clean_ssd
for shell in bash dash sh; do
    command -v $shell >/dev/null || continue
    job_ok 60 2@n0,n1 $shell -c '
        other=$((1 - PMIX_RANK))
        cat "$0/sib.$1.$other" >"$2/got.$PMIX_RANK" &
        reader=$!
        echo "from $PMIX_RANK" >"$0/sib.$1.$PMIX_RANK"
        wait $reader' "$SSD" $shell "$WORK"
    [ "$(cat "$WORK/got.0" "$WORK/got.1")" = $'from 1\nfrom 0' ] || fail "$shell: wrong content"
done

clean_ssd
job_ok 60 2@n0,n1 "$HERE/shell_exec.sh" "$SSD" bash -c '
    echo after >"$0/after.$PMIX_RANK"
    read -r line <"$0/after.$((1 - PMIX_RANK))"
    [ "$line" = after ] && echo exec survived' "$SSD"
[ "$(grep -c 'exec survived' "$OUT")" -eq 2 ] || fail "not both ranks went on after exec"

# What was published before an exec is served after it, also when all exec at once.
clean_ssd
job_ok 60 2@n0,n1 bash -c '
    echo "kept $PMIX_RANK" >"$0/kept.$PMIX_RANK"
    exec "$1" read -d "$0/fromx" -n 0' "$SSD" "$PROGS/xfer" -- \
    1@n1 bash -c 'sleep 1; exec cat "$0/kept.0"' "$SSD"
grep -q 'kept 0' "$OUT" || fail "what was published before exec is lost"

# Two of three ranks exec at once, and with them all homes of a third of the names. The owner brings these what it has
# published, which takes a while; nobody is told before that it is not published, or that nobody is left who could.
cat >"$WORK/many" <<'EOT2'
cd "$DYAD_PATH" || exit 1
if [ "$PMIX_RANK" -eq 0 ]; then
    "$1" write -d . -p many -n 3000 -s 10 -t 4 && : >"$2"
    exit
fi
until [ -e "$2" ]; do sleep 0.01; done
[ "${3:-}" = again ] || exec bash "$0" "$1" "$2" again
for ((i = 2999; i >= 0; i -= 100)); do
    read -r -N 1 x <"$(printf many.%06d $i)" || exit 1
done
EOT2
words=(bash "$WORK/many" "$PROGS/xfer" "$WORK/written")
local_job_ok 120 1@m0 "${words[@]}" -- 1@m1 "${words[@]}" -- 1@m2 "${words[@]}"

# What another node has written anew is not published again in its older version by who had made it, though all homes have
# become others and the writer of the newer version is not there: it comes back from an image without the library last.
# Then all exec at the same moment.
cat >"$WORK/newer" <<'EOT2'
cd "$DYAD_PATH" || exit 1
made() { : >"$W/$1.$PMIX_RANK"; }
all() {
    local rank
    made "$1"
    for rank in 0 1 2 3 4; do until [ -e "$W/$1.$rank" ]; do sleep 0.01; done; done
}
if [ "$1" = write ]; then
    [ "$PMIX_RANK" -ne 0 ] || for i in {1..8}; do echo old >f$i; done
    all old
    cat f1 >/dev/null
    all read
    [ "$PMIX_RANK" -ne 3 ] || for i in {1..8}; do echo new >f$i; done
    all new
    if [ "$2" = last ] && [ "$PMIX_RANK" -eq 3 ]; then
        export LIBRARY=$LD_PRELOAD
        exec env -u LD_PRELOAD bash -c 'for rank in 0 1 2 4; do until [ -e "$W/image.$rank" ]; do sleep 0.01; done; done
            LD_PRELOAD=$LIBRARY exec bash "$@"' bash "$0" read
    fi
    exec bash "$0" read
fi
made image
for i in {1..8}; do
    [ "$(<f$i)" = new ] || { echo "rank $PMIX_RANK has an older f$i" >&2; exit 1; }
done
EOT2
JOB_ENV+=("W=$WORK")
for how in last once once once; do
    rm -rf "$WORK"/{old,read,new,image}.[0-9] "$WORK"/dmd.m?
    local_job_ok 60 1@m0 bash "$WORK/newer" write $how -- 2@m1 bash "$WORK/newer" write $how -- \
        1@m2 bash "$WORK/newer" write $how -- 1@m3 bash "$WORK/newer" write $how
done
