#!/bin/bash
# The installed tree: everything is there, it can be moved, others can build against it, and it works.
. "$(dirname "$0")/../cluster/lib.sh"
[ -z "$SANITIZE" ] || skip "needs a build without sanitizers"
cluster_up 2

cmake --install "$BUILD_DIR" --prefix "$WORK/first" >"$WORK/install.out" || fail "cmake --install: $(cat "$WORK/install.out")"
mv "$WORK/first" "$WORK/moved"
prefix=$WORK/moved
libdir=$(dirname "$(find "$prefix" -name libdyad_wrapper.so)")
for file in "$libdir/libdyad_wrapper.so" "$libdir/libdyad.so.1" "$libdir/dyad/libdyad_member.so" "$prefix/bin/dyad-run" \
    "$prefix/bin/dyad-dht-dump" "$prefix/include/dyad/dyad.h" "$prefix/include/dyad/stream.hpp" "$libdir/pkgconfig/dyad.pc" "$libdir/cmake/dyad/dyad-config.cmake" \
    "$prefix/share/man/man1/dyad-run.1" "$prefix/share/man/man1/dyad-dht-dump.1"; do
    [ -s "$file" ] || fail "not installed: ${file#"$prefix"/}"
done
! grep -rlF "$BUILD_DIR" "$libdir/pkgconfig" "$libdir/cmake" || fail "the build tree is named in an installed file"
# libc and what comes with it, nothing else, lands in a program.
for library in libdyad_wrapper.so libdyad.so.1; do
    needed=$(readelf -d "$libdir/$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|ld-linux.*)\.so|^libdl\.so|^libpthread\.so' || true)
    [ -z "$needed" ] || fail "$library needs $needed"
done

# A program built with pkg-config, and with CMake.
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
gcc -o "$WORK/by-pkg-config" "$SOURCE_DIR/test/integration/progs/api_pair.c" $(pkg-config --cflags --libs dyad) ||
    fail "a program does not build with pkg-config"
mkdir "$WORK/user"
cat >"$WORK/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(dyad 0.1 REQUIRED)
if(NOT EXISTS "\${dyad_WRAPPER}")
  message(FATAL_ERROR "dyad_WRAPPER: '\${dyad_WRAPPER}'")
endif()
add_executable(by-cmake $SOURCE_DIR/test/integration/progs/api_pair.c)
target_link_libraries(by-cmake dyad::dyad)
EOF
cmake -G Ninja -S "$WORK/user" -B "$WORK/user/build" -DCMAKE_PREFIX_PATH="$prefix" >"$WORK/cmake.out" 2>&1 &&
    cmake --build "$WORK/user/build" >>"$WORK/cmake.out" 2>&1 || fail "find_package(dyad): $(cat "$WORK/cmake.out")"

BIN=$prefix/bin
START=dyad-run job_ok 30 1@n0 sh -c 'echo moved >"$0/file"' "$SSD" -- 1@n1 cat "$SSD/file"
[ "$(cat "$OUT")" = moved ] || fail "the moved tree does not work"
JOB_ENV+=("DYAD_PATH=$SSD" "LD_LIBRARY_PATH=$libdir")
for program in "$WORK/by-pkg-config" "$WORK/user/build/by-cmake"; do
    clean_ssd
    START=none job_ok 30 1@n0 sh -c 'mkdir -p "$1" && exec "$0" produce "$1" 5' "$program" "$SSD" -- 1@n1 "$program" consume "$SSD" 5 || true
    same_sums 5 n0 n1
done
