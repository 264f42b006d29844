#!/bin/bash
# The Python packages dyad and pydyad, installed by CMake and by pip, without and with the wrapper in the process.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
[ -z "$SANITIZE" ] || skip "needs a build without sanitizers"
cluster_up 2
FROM=$SOURCE_DIR/packaging/python
PROG=$SOURCE_DIR/test/integration/progs/api_python.py

# Python 3.9 can read it.
"$PYTHON" - "$FROM" <<'END' || fail "not Python 3.9"
import ast, pathlib, sys
files = list(pathlib.Path(sys.argv[1]).glob("*dyad/*.py"))
assert len(files) >= 8, files
for file in files:
    ast.parse(file.read_text(), str(file), feature_version=(3, 9))
END

prefix=$WORK/prefix
mkdir -p "$prefix/lib"
for part in src/client packaging; do
    cmake --install "$BUILD_DIR/$part" --prefix "$prefix" >"$WORK/install.out" 2>&1 || fail "cmake --install: $(cat "$WORK/install.out")"
done
by_cmake=$(dirname "$(dirname "$(find "$prefix" -path '*/dyad/_calls.py')")")
libdir=$(dirname "$(find "$prefix" -name libdyad.so.1)")
[ -e "$by_cmake/dyad/py.typed" ] && [ -e "$by_cmake/pydyad/hdf.py" ] || fail "not all is installed"
mkdir -p "$libdir/dyad"
cp "$LIB/dyad/libdyad_member.so" "$libdir/dyad/"
"$PYTHON" -m compileall -q "$by_cmake" || fail "it does not compile"

# With what is installed: there is no network. A build makes files beside its source.
installer=
for python in /usr/bin/python3 "$PYTHON"; do
    "$python" -c 'import importlib.util as u; assert all(map(u.find_spec, ("pip", "setuptools", "wheel")))' 2>/dev/null || continue
    installer=$python
    break
done
[ -n "$installer" ] || skip "needs pip, setuptools and wheel of a python3"
cp -r "$FROM" "$WORK/source"
"$installer" -m pip install -q --no-build-isolation --no-index --no-deps --target "$WORK/pip" "$WORK/source" >"$WORK/pip.out" 2>&1 ||
    fail "pip: $(cat "$WORK/pip.out")"
[ -e "$WORK/pip/dyad/py.typed" ] || fail "py.typed is not installed by pip"
ways=("$by_cmake" "$WORK/pip")

START=none
base=("${JOB_ENV[@]}")
for way in "${ways[@]}"; do
    for preload in "" "$PRELOAD"; do
        clean_ssd
        rm -rf "$WORK/told" && mkdir "$WORK/told"
        JOB_ENV=("${base[@]}" "DYAD_PATH=$SSD" "PYTHONPATH=$way" PYTHONDONTWRITEBYTECODE=1 "LD_PRELOAD=$preload")
        # What CMake has installed finds its library by itself.
        [ "$way" = "$by_cmake" ] || [ -n "$preload" ] || JOB_ENV+=("DYAD_LIBRARY=$LIB/libdyad.so.1")
        job_ok 60 1@n0 "$PYTHON" "$PROG" produce "$SSD" "$WORK/told" -- 1@n1 "$PYTHON" "$PROG" consume "$SSD" "$WORK/told"
        grep -q 'produce done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not both reported"
    done
done

# A library of another version is refused, with what to do.
cp "$LIB/libdyad.so.1" "$WORK/libdyad.so.0.9.0"
! DYAD_LIBRARY=$WORK/libdyad.so.0.9.0 PYTHONPATH=$by_cmake "$PYTHON" -c 'import dyad' 2>"$WORK/refused" || fail "version 0.9.0 was taken"
grep -q 'ImportError.*0\.9\.0.*DYAD_LIBRARY' "$WORK/refused" || fail "not told: $(cat "$WORK/refused")"
