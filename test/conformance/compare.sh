# shellcheck shell=bash
# compare.sh - sourced behind lib.sh: two runs of `conform`, line by line

# shellcheck disable=SC2034
CONFORM=$BUILD_DIR/test/conformance/conform
# Some cases abort: a core would lie among the files that are compared.
ulimit -c 0

# name_of LINE: the case of a line, or the case's part of a path.
name_of() {
    local name=${1#*:\"}
    name=${name%%\"*}
    printf '%s' "${name%%/*}"
}

# compare ORACLE RUN...: $WORK/RUN.json against $WORK/ORACLE.json. A difference is shown, and fails the test unless
# "expected" has a pattern for the case; so does a pattern that nothing differs for.
compare() {
    local oracle=$1 run pattern runs name ours theirs bad=0 shown=0
    local -a patterns=()
    local -A hit=()
    shift
    while IFS=';' read -r pattern runs _; do
        pattern=${pattern// /}
        [[ -z $pattern || $pattern == \#* ]] && continue
        [[ $runs == *" $oracle "* ]] && patterns+=("$pattern")
    done <"$(dirname "${BASH_SOURCE[0]}")/expected"
    for run in "$@"; do
        [ "$(wc -l <"$WORK/$oracle.json")" -eq "$(wc -l <"$WORK/$run.json")" ] ||
            fail "$run: $(wc -l <"$WORK/$run.json") lines, not $(wc -l <"$WORK/$oracle.json")"
        while IFS= read -r ours <&3 && IFS= read -r theirs <&4; do
            [ "$ours" != "$theirs" ] || continue
            name=$(name_of "$ours")
            for pattern in "${patterns[@]}"; do
                # shellcheck disable=SC2053
                [[ $name == $pattern ]] && hit[$pattern]=1 && continue 2
            done
            bad=$((bad + 1))
            printf '%s differs: %s\n' "$run" "$name"
            [ $((shown += 1)) -gt "${DYAD_TEST_SHOWN:-25}" ] ||
                diff <(sed 's/\],\[/],\n[/g; s/},{/},\n{/g' <<<"$ours") <(sed 's/\],\[/],\n[/g; s/},{/},\n{/g' <<<"$theirs") || true
        done 3<"$WORK/$oracle.json" 4<"$WORK/$run.json"
    done
    if [ -z "${CASES:-}" ]; then
        for pattern in "${patterns[@]}"; do
            [ -n "${hit[$pattern]:-}" ] || { echo "nothing differs: $pattern, but it is in expected"; bad=$((bad + 1)); }
        done
    fi
    [ $bad -eq 0 ] || fail "$bad differences"
}
