#!/bin/bash
# Programs that were built with a sanitizer, or have a malloc of their own, share files as others do, as the first process
# of their rank and as a later one; nothing of the library is reported, and what is wrong in the program is.
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun gcc
[ -z "$SANITIZE" ] || skip "is for programs with a sanitizer, not for a library with one"
JOB_ENV+=(DYAD_TIMEOUT=60 "WORK=$WORK")
START=dyad-run

build() { # NAME COMPILER FLAG...
    local name=$1
    shift
    ALL+=("$name")
    "$@" -g -O1 -pthread -o "$WORK/$name" "$(dirname "$0")/progs/sanitized.c" 2>"$WORK/$name.err" &
}
ALL=() KINDS=()
build own_malloc gcc -DOWN_MALLOC
for kind in address thread undefined leak; do
    build "gcc.$kind" gcc "-fsanitize=$kind"
done
if command -v clang >/dev/null 2>&1; then
    for kind in address thread undefined memory; do
        build "clang.$kind" clang "-fsanitize=$kind"
    done
fi
wait
for kind in "${ALL[@]}"; do
    if [ -x "$WORK/$kind" ]; then
        KINDS+=("$kind")
    else
        say "not built: $kind: $(head -n 1 "$WORK/$kind.err")"
    fi
done
for kind in own_malloc gcc.address gcc.thread gcc.undefined; do
    [[ " ${KINDS[*]} " = *" $kind "* ]] || fail "cannot be built: $kind"
done

# Each writes its files and reads those of the one before it, which is on the other node; the shells' programs likewise.
cat >"$WORK/later" <<'EOT'
own=$1 other=$2
shift 2
for kind; do
    "$WORK/$kind" "$own.$kind" "$other.$kind" || { echo "$kind failed" >&2; exit 1; }
done
EOT
# What is wrong in a program is reported, and is its end.
cat >"$WORK/wrong" <<'EOT'
! "$WORK/gcc.address" overflow 2>"$WORK/overflow" && ! "$WORK/gcc.thread" race 2>"$WORK/race"
EOT
words=()
count=${#KINDS[@]}
[ $((count % 2)) -eq 0 ] || KINDS+=("${KINDS[0]}")
count=${#KINDS[@]}
for ((i = 0; i < count; i++)); do
    words+=("1@n$((i % 2))" "$WORK/${KINDS[i]}" "first.$i" "first.$(((i + count - 1) % count))" --)
done
local_job_ok 120 "${words[@]}" 1@n0 bash "$WORK/wrong" -- \
    1@n0 bash "$WORK/later" a b "${KINDS[@]}" -- 1@n1 bash "$WORK/later" b a "${KINDS[@]}"
! grep -q 'Sanitizer' "$ERR" || fail "a report: $(grep Sanitizer "$ERR")"
grep -q 'SUMMARY: AddressSanitizer: heap-buffer-overflow' "$WORK/overflow" || fail "overflow: no report"
grep -q 'SUMMARY: ThreadSanitizer: data race .*sanitized.c' "$WORK/race" || fail "race: no report"

# One that becomes the first process of its rank all the same says so, and is none.
! local_job 60 1@n0 sh -c 'exec "$WORK/gcc.thread" a.1 b.1' || fail "a first process with ThreadSanitizer ended well"
grep -q 'built with ThreadSanitizer.*exec' "$LOG" || fail "it does not say why"
