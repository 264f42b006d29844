#!/bin/bash
# A real tree unpacked by tar on one node; compared file by file on another, packed by tar on a third.
. "$(dirname "$0")/../cluster/lib.sh"
need tar cmp
cluster_up 3

# Regular files, with bytes in them (tar opens no others), of this project and of some packages' documentation.
(
    cd /
    for dir in "$SOURCE_DIR"/src "$SOURCE_DIR"/include "$SOURCE_DIR"/tools "$SOURCE_DIR"/docs /usr/share/doc/cmake* /usr/share/doc/libc6* \
        /usr/share/doc/openmpi* /usr/share/doc/lib*ucx* /usr/share/doc/python3*; do
        [ ! -d "$dir" ] || find "${dir#/}" -xdev -type f -size -4M -size +0c
    done | sort | awk 'NR <= 600'
) >"$WORK/list"
count=$(wc -l <"$WORK/list")
[ "$count" -gt 50 ] || fail "only $count files to work with"
tar -C / -cf "$WORK/tree.tar" -T "$WORK/list"
mkdir "$WORK/tree"
tar -C "$WORK/tree" -xf "$WORK/tree.tar"
# The sum of a tar file: content, names, modes, owners and times.
expected=$(cd "$WORK/tree" && tar --format=gnu -cf - -T "$WORK/list" | sha256sum)

cat >"$WORK/compare.sh" <<'SH'
set -eu
: >"$WORK/ready"
while IFS= read -r name; do
    cmp "$WORK/tree/$name" "$SSD/$name"
done <"$WORK/list"
SH
cat >"$WORK/pack.sh" <<'SH'
set -eu
until [ -e "$WORK/unpacked" ]; do sleep 0.05; done
cd "$SSD"
tar --format=gnu -cf - -T "$WORK/list" | sha256sum >"$WORK/packed.sum"
SH
cat >"$WORK/unpack.sh" <<'SH'
set -eu
until [ -e "$WORK/ready" ]; do sleep 0.05; done
tar -C "$SSD" -xf "$WORK/tree.tar"
: >"$WORK/unpacked"
SH
JOB_ENV+=("WORK=$WORK" "SSD=$SSD")
job_ok 150 1@n0 sh "$WORK/unpack.sh" -- 1@n1 bash "$WORK/compare.sh" -- 1@n2 bash "$WORK/pack.sh"
[ "$(cat "$WORK/packed.sum")" = "$expected" ] ||
    fail "what tar packs on n2 is not what tar packs of the original: $(cat "$WORK/packed.sum"), $expected"
same_sums "$count" n0 n1 n2
say "$count files"
