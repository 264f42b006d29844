#!/bin/bash
# Each fuzzer for some seconds, from the corpus of the tree: with clang and its libFuzzer, in a build of its own.
#
# By hand (docs/contributing.md): FUZZ_ONLY="msg peer" FUZZ_SECONDS=600 FUZZ_FOUND=DIR, where new inputs are kept.
. "$(dirname "$0")/../cluster/lib.sh"
need cmake ninja flock
[ -z "$SANITIZE" ] || skip "has a build of its own, which is instrumented"
CLANG=$(command -v clang || command -v clang-14) || skip "needs clang (packaging/install-deps.sh installs it)"
echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n > 1 ? 0 : 0; }' >"$WORK/probe.c"
"$CLANG" -fsanitize=fuzzer,address,undefined "$WORK/probe.c" -o "$WORK/probe" 2>/dev/null ||
    skip "needs clang's libFuzzer and sanitizers (packaging/install-deps.sh installs them)"
# The same inputs each time, but in the level soak and by hand: what is new is found there.
case $LEVEL in soak) how=(-max_total_time=60) ;; *) how=(-seed=1 -runs=5000 -max_total_time=20) ;; esac
[ -z "${FUZZ_SECONDS:-}" ] || how=("-max_total_time=$FUZZ_SECONDS")
found=$(realpath -m "${FUZZ_FOUND:-$WORK/found}")

# Whoever comes first builds it.
FUZZ=$BUILD_DIR/fuzzers
mkdir -p "$FUZZ"
flock "$FUZZ" sh -c 'cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$3" \
        -DDYAD_SANITIZE=fuzzer-no-link,address,undefined,float-cast-overflow &&
    cmake --build "$2" --target fuzzers' _ "$SOURCE_DIR" "$FUZZ" "$CLANG" >"$WORK/build.log" 2>&1 ||
    fail "the fuzzers cannot be built: $(tail -n 20 "$WORK/build.log")"

ran=0
for corpus in "$SOURCE_DIR"/test/fuzz/corpus/*/; do
    name=$(basename "$corpus")
    case " ${FUZZ_ONLY:-$name} " in *" $name "*) ;; *) continue ;; esac
    mkdir -p "$found/$name"
    # An input that fails is in the logs.
    (cd "$WORK" && timeout -k 5 $((${FUZZ_SECONDS:-60} + 120)) "$FUZZ/bin/fuzz_$name" "$found/$name" "$corpus" -max_len=4096 \
        "${how[@]}" -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$WORK/$name." -print_final_stats=1) \
        >"$WORK/fuzz.$name.log" 2>&1 || fail "fuzz_$name: $(tail -n 40 "$WORK/fuzz.$name.log")"
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$WORK/fuzz.$name.log")
    [ "${inputs:-0}" -gt 0 ] || fail "fuzz_$name ran no input: $(tail -n 20 "$WORK/fuzz.$name.log")"
    say "$name: $inputs inputs"
    ran=$((ran + 1))
done
[ $ran -gt 0 ] || fail "there is no corpus of the name ${FUZZ_ONLY:-}"
