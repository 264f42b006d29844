#!/bin/sh
# test_symbols.sh WRAPPER LIST OBJECT...: the wrapper exports exactly what its table (LIST prints it) says, and
# those of its objects that tell where a path or descriptor leads do not call what it exports: each open passes there,
# and a function of ours would ask them again.
set -eu
wrapper=$1 list=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C
"$list" symbols | sort -u >"$dir/table"
nm -D --defined-only "$wrapper" | awk '$2 == "T" || $2 == "W" {print $3}' | sort -u >"$dir/exported"
if ! diff "$dir/table" "$dir/exported"; then
    echo "not ok: '<' is in symbols.def but not exported, '>' is exported but not in symbols.def" >&2
    exit 1
fi
# syscall is bound to the real one by the linker.
grep -vx syscall "$dir/table" >"$dir/ours"
seen=0
for object; do
    case $object in
    */path_find.c.o | */path_known.c.o | */path_walk.c.o | */path_managed.c.o | */real.c.o | */gate.c.o | */call.c.o) ;;
    *) continue ;;
    esac
    seen=$((seen + 1))
    nm -u "$object" | awk '{print $2}' | sort -u | comm -12 - "$dir/ours" >"$dir/called"
    if [ -s "$dir/called" ]; then
        echo "not ok: $object calls $(tr '\n' ' ' <"$dir/called")which the wrapper itself exports" >&2
        exit 1
    fi
done
[ "$seen" -eq 7 ] || { echo "not ok: $seen of 7 objects were given" >&2; exit 1; }
echo "ok: $(wc -l <"$dir/table") symbols"
