#!/bin/sh
# test_interposed.sh WRAPPER LIST TABLE: what TABLE (libc_functions.txt) says must be interposed is exported by
# WRAPPER or, by its symbol table (LIST prints it), covered for a reason.
set -eu
wrapper=$1 list=$2 table=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C
nm -D --defined-only "$wrapper" | awk '$2 == "T" || $2 == "W" {print $3}' | sort -u >"$dir/exported"
"$list" covered | sort -u >"$dir/covered"
sort -u "$dir/exported" "$dir/covered" >"$dir/done"
sed 's/#.*//' "$table" | awk 'NF == 1 {print $1}' | sort -u >"$dir/must"
sed 's/#.*//' "$table" | awk 'NF > 2 && $2 == "-" {print $1}' | sort -u >"$dir/except"
sed 's/#.*//' "$table" | awk 'NF == 2 || (NF > 2 && $2 != "-") {print}' >"$dir/bad"
sed 's/#.*//' "$table" | awk 'NF {print $1}' | sort | uniq -d >>"$dir/bad"
status=0
say() {
    echo "not ok: $1:" $2 >&2
    status=1
}
[ ! -s "$dir/bad" ] || say "lines of $table that mean nothing, or names that come twice" "$(cat "$dir/bad")"
missing=$(comm -23 "$dir/must" "$dir/done")
[ -z "$missing" ] || say "not interposed" "$missing"
both=$(comm -12 "$dir/except" "$dir/exported")
[ -z "$both" ] || say "exported, but $table excuses it" "$both"
unknown=$(sort -u "$dir/must" "$dir/except" | comm -13 - "$dir/exported" | grep -Ev '^(PMIx_|P?MPI_|__asan_)' || true)
[ -z "$unknown" ] || say "exported, but not in $table" "$unknown"
[ $status -ne 0 ] || echo "ok: $(wc -l <"$dir/must") functions, $(wc -l <"$dir/except") excused"
exit $status
