#!/bin/bash
# The streams and the session of dyad/stream.hpp, from an installed tree: each standard and compiler, with and without the wrapper.
# shellcheck source=test/cluster/lib.sh
. "$(dirname "$0")/../cluster/lib.sh"
[ -z "$SANITIZE" ] || skip "needs a build without sanitizers"
need g++ cmake pkg-config
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 2

cmake --install "$BUILD_DIR" --prefix "$WORK/tree" >"$WORK/install.out" || fail "cmake --install: $(cat "$WORK/install.out")"
[ -s "$WORK/tree/include/dyad/stream.hpp" ] || fail "dyad/stream.hpp is not installed"
libdir=$(dirname "$(find "$WORK/tree" -name libdyad_wrapper.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
source=$SOURCE_DIR/test/integration/progs/dyad_streams.cc
built=()
for compiler in g++ clang++ clang++-14; do
    command -v $compiler >/dev/null || continue
    for standard in 11 17 20; do
        # With --long each is run.
        read -r -a link < <(pkg-config --libs dyad)
        link=(-o "$WORK/$compiler.$standard" "${link[@]}")
        [ "$LEVEL" != short ] || [ "$compiler.$standard" = g++.11 ] || link=(-fsyntax-only)
        # shellcheck disable=SC2046
        $compiler -std=c++$standard -Wall -Wextra -Wpedantic -Wshadow -Werror "$source" \
            $(pkg-config --cflags dyad) "${link[@]}" || fail "$compiler -std=c++$standard"
        [ "${link[0]}" != -o ] || built+=("$WORK/$compiler.$standard")
    done
done
mkdir "$WORK/user"
cat >"$WORK/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(user CXX)
find_package(dyad 0.1 REQUIRED)
add_executable(by-cmake $source)
target_link_libraries(by-cmake dyad::dyad)
EOF
cmake -S "$WORK/user" -B "$WORK/user/build" -DCMAKE_PREFIX_PATH="$WORK/tree" >"$WORK/cmake.out" 2>&1 &&
    cmake --build "$WORK/user/build" >>"$WORK/cmake.out" 2>&1 || fail "find_package(dyad): $(cat "$WORK/cmake.out")"
built+=("$WORK/user/build/by-cmake")

# How many versions the producer's rank has published. With the wrapper the shell is its member, so that it can be asked when
# the producer has ended.
cat >"$WORK/count.py" <<'EOF'
import json, sys
print(sum(shard["published"] for shard in json.load(sys.stdin)["shards"] if shard["rank"] == 0))
EOF
cat >"$WORK/producer" <<'EOF'
"$1" produce "$2" || exit
[ -n "$3" ] || exit 0
LD_PRELOAD= "$BIN/dyad-dht-dump" --json | LD_PRELOAD= "$PYTHON" "$WORK/count.py" >"$WORK/published"
EOF

JOB_ENV+=("DYAD_PATH=$SSD" "LD_LIBRARY_PATH=$libdir" "WORK=$WORK" "BIN=$BIN" "PYTHON=$PYTHON" DYAD_TIMEOUT=30)
for program in "${built[@]}"; do
    for preload in "" "$libdir/libdyad_wrapper.so"; do
        clean_ssd
        START=none
        JOB_ENV+=("LD_PRELOAD=$preload")
        job_ok 90 1@n0 sh "$WORK/producer" "$program" "$SSD" "$preload" -- 1@n1 "$program" consume "$SSD"
        grep -q 'produce done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not both reported"
        if [ -n "$preload" ]; then
            # text, binary, a, b, a with more, both, wide, end
            [ "$(cat "$WORK/published")" = 8 ] || fail "the producer has published $(cat "$WORK/published") versions, not 8"
        fi
    done
done

# A stream that nobody has joined for, and that is closed at exit.
for preload in "" "$libdir/libdyad_wrapper.so"; do
    clean_ssd
    JOB_ENV+=("LD_PRELOAD=$preload")
    job_ok 60 1@n0 "${built[0]}" bare "$SSD" -- 1@n1 "${built[0]}" wait "$SSD"
    same_sums 1 n0 n1
done

# Nobody can join without a launcher; where no directory is managed these are std's streams.
mkdir "$WORK/alone"
DYAD_PATH=$WORK/alone LD_LIBRARY_PATH=$libdir timeout -k 2 20 "${built[0]}" alone "$WORK/alone" >"$WORK/alone.out" 2>&1 ||
    fail "without a launcher: $(cat "$WORK/alone.out")"
LD_LIBRARY_PATH=$libdir timeout -k 2 20 "${built[0]}" bare "$WORK/alone" >"$WORK/plain.out" 2>&1 &&
    [ "$(cat "$WORK/alone/bare")" = bare ] || fail "without a managed directory: $(cat "$WORK/plain.out")"
