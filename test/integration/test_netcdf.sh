#!/bin/bash
# netCDF files made by ncgen on one node, dumped by ncdump on another: classic and netCDF-4 (HDF5).
. "$(dirname "$0")/../cluster/lib.sh"
need ncgen ncdump
cluster_up 2

"$PYTHON" - >"$WORK/field.cdl" <<'PY'
print("netcdf field {\ndimensions:\n x = 100 ; y = 200 ;\nvariables:\n double t(x, y) ;\n"
      '  t:units = "K" ;\n int n(x) ;\ndata:\n t =')
print(", ".join(str(i / 8) for i in range(20000)), ";\n n =", ", ".join(map(str, range(100))), ";\n}")
PY
JOB_ENV+=("WORK=$WORK" "SSD=$SSD")
cat >"$WORK/make.sh" <<'SH'
set -eu
until [ -e "$WORK/ready" ]; do sleep 0.05; done
for kind in classic nc4; do
    mkdir -p "$SSD/$kind"
    ncgen -k "$kind" -o "$SSD/$kind/field.nc" "$WORK/field.cdl"
done
SH
cat >"$WORK/dump.sh" <<'SH'
set -eu
: >"$WORK/ready"
for kind in classic nc4; do
    # ncdump asks with stat before it opens: wait with a program that opens.
    head -c 1 "$SSD/$kind/field.nc" >/dev/null
    ncdump "$SSD/$kind/field.nc" >"$WORK/$kind.out"
done
SH
job_ok 60 1@n0 sh "$WORK/make.sh" -- 1@n1 sh "$WORK/dump.sh"
for kind in classic nc4; do
    ncgen -k $kind -o "$WORK/field.nc" "$WORK/field.cdl"
    ncdump "$WORK/field.nc" | cmp - "$WORK/$kind.out" || fail "ncdump of $kind differs"
done
same_sums 2 n0 n1
