#!/bin/bash
# HDF5 files made by h5import and h5copy on one node, read by h5dump and h5diff on another.
. "$(dirname "$0")/../cluster/lib.sh"
need h5import h5copy h5dump h5diff
cluster_up 2

"$PYTHON" -c 'print("\n".join(" ".join(str(r * 50 + c) for c in range(50)) for r in range(400)))' >"$WORK/table.txt"
cat >"$WORK/make.sh" <<'SH'
set -eu
cd "$1"
h5import "$WORK/table.txt" -d 400,50 -p raw/table -t TEXTIN -s 32 -o table.h5
h5copy -i table.h5 -o copy.h5 -p -s /raw/table -d /other/place
SH
cat >"$WORK/dump.sh" <<'SH'
set -eu
: >"$WORK/ready"
cd "$SSD"
# The HDF5 tools ask before they open: wait with a program that opens.
head -c 1 copy.h5 >/dev/null
head -c 1 table.h5 >/dev/null
h5dump copy.h5 >"$WORK/dump.out"
h5diff table.h5 copy.h5 /raw/table /other/place
SH
JOB_ENV+=("WORK=$WORK" "SSD=$SSD")
job_ok 60 1@n0 sh -c 'until [ -e "$WORK/ready" ]; do sleep 0.05; done; sh "$WORK/make.sh" "$SSD"' -- \
    1@n1 sh "$WORK/dump.sh"
mkdir "$WORK/reference"
env WORK="$WORK" sh "$WORK/make.sh" "$WORK/reference"
(cd "$WORK/reference" && h5dump copy.h5) | cmp - "$WORK/dump.out" || fail "h5dump differs"
same_sums 2 n0 n1
