#!/bin/sh
# test_symbols.sh WRAPPER LIST: the wrapper exports exactly what its table (LIST prints it) says.
# Then, for people: file-opening functions that programs of this machine import and nobody covers.
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
"$list" covered | sort -u >>"$dir/table"
find /usr/bin /usr/lib/x86_64-linux-gnu -maxdepth 1 -type f \( -perm -100 -o -name '*.so*' \) 2>/dev/null |
    head -n 400 | while read -r file; do nm -D --undefined-only "$file" 2>/dev/null || true; done |
    awk '{sub(/@.*/, "", $2); print $2}' |
    grep -E '^(_*|f|l)(open|creat|fopen|freopen|popen|tmpfile|mk[a-z]*temp|x?stat|dup|close|truncate|exec|posix_spawn|link|symlink|rename|unlink|remove|fork|daemon|forkpty|sendfile|copy_file_range|access)[a-z0-9_]*$' |
    sort | uniq -c | sort -rn >"$dir/imports" || true
echo "imported on this machine, not covered (uses, name):"
awk 'NR == FNR {covered[$1] = 1; next} !($2 in covered)' "$dir/table" "$dir/imports"
