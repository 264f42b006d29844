#!/bin/sh
# test_symbols.sh WRAPPER LIST: the wrapper exports exactly what its table (LIST prints it) says.
set -eu
wrapper=$1 list=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C
"$list" symbols | sort -u >"$dir/table"
nm -D --defined-only "$wrapper" | awk '$2 == "T" || $2 == "W" {print $3}' | sort -u >"$dir/exported"
if ! diff "$dir/table" "$dir/exported"; then
    echo "not ok: '<' is in symbols.def but not exported, '>' is exported but not in symbols.def" >&2
    exit 1
fi
echo "ok: $(wc -l <"$dir/table") symbols"
