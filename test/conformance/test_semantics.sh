#!/bin/bash
# docs/semantics.md: each test that it names exists, and each symbol that the wrapper takes over is in a row.
#   test_semantics.sh SOURCE-DIR CTEST CONFORM
set -eu
doc=$1/docs/semantics.md bad=0
tests=$("$2" -N -C soak | sed -n 's/^ *Test *#[0-9]*: //p')
groups=$("$3" --list | sed 's/\..*//' | sort -u)

for name in $(grep -o '\<\(unit\|integration\|conformance\)/[a-z0-9_/]*[a-z0-9_]' "$doc" | sort -u); do
    grep -qx "$name" <<<"$tests" && continue
    [[ $name == conformance/* ]] && grep -qx "${name#*/}" <<<"$groups" && continue
    echo "no such test: $name"
    bad=1
done
for group in $groups; do
    grep -q "conformance/$group\>" "$doc" || { echo "no row names conformance/$group"; bad=1; }
done

# The symbols as the table gives them to the preprocessor.
symbols=$(printf '%s\n' '#define WRAPPER_SYMBOL(r, n, p) @n@' '#define WRAPPER_SYMBOL_V(r, n, p, v) @n@' \
    '#define WRAPPER_COVERED(n) @n@' '#define WRAPPER_FOREIGN(n) @n@' '#include "wrapper/symbols.def"' |
    "${CC:-cc}" -E -P -I"$1/src" - | grep -o '@ *[A-Za-z0-9_]* *@' | tr -d '@ ')
[ "$(wc -l <<<"$symbols")" -gt 50 ] || { echo "the table of symbols was not understood"; bad=1; }
rows=$(grep '^|' "$doc")
for symbol in $symbols; do
    grep -q "\`$symbol\`" <<<"$rows" || { echo "in no row: $symbol"; bad=1; }
done
exit $bad
