#!/bin/bash
# Libraries below the managed directory: dlopen brings what another node published, and waits for it, and brings what it
# needs by its run path; so do programs. Whom the loader takes for the caller is who called.
. "$(dirname "$0")/../cluster/lib.sh"
need mpirun gcc
[ -n "$PYTHON" ] || skip "needs python3"
case $SANITIZE in *address* | *thread*) skip "dlmopen and python3 do not bear the runtime" ;; esac
JOB_ENV+=(DYAD_TIMEOUT=20 "DYAD_WAIT=flag.*:late/*:*libouter.so:*user" "WORK=$WORK" "PYTHON=$PYTHON")

SOURCE=$(dirname "$0")/progs/loads.c
PKG=$WORK/pkg
mkdir -p "$PKG/deps/deep" "$PKG/plug" "$PKG/search" "$PKG/bin" "$PKG/lib" "$WORK/outside/plug"
lib() { # FILE NAME VALUE FLAG...
    local file=$1 name=$2 value=$3
    shift 3
    gcc -shared -fPIC -Wl,-soname,"${file##*/}" -o "$file" "-DNAME=$name" "-DVALUE=$value" "$SOURCE" "$@"
}
ORIGIN='$ORIGIN'
# outer needs inner needs deep, each by its own run path; of the old kind, too.
lib "$PKG/deps/deep/libdeep.so" deep 1
lib "$PKG/deps/libinner.so" inner 10 -DNEEDS=deep "$PKG/deps/deep/libdeep.so" "-Wl,-rpath,$ORIGIN/deep,--disable-new-dtags"
lib "$PKG/libouter.so" outer 100 -DNEEDS=inner "$PKG/deps/libinner.so" "-Wl,-rpath,/nowhere:\${ORIGIN}/deps,--enable-new-dtags" \
    "-Wl,-rpath-link,$PKG/deps/deep"
# By the run path of the library that calls dlopen; by that of a program elsewhere.
lib "$PKG/plug/libplug.so" opened 7
lib "$PKG/libopens.so" opens 0 '-DOPENS="libplug.so"' "-Wl,-rpath,$ORIGIN/plug"
lib "$WORK/outside/plug/libmine.so" opened 8
gcc -o "$WORK/outside/loads" "$SOURCE" "-Wl,-rpath,$ORIGIN/plug"
lib "$PKG/search/libsearched.so" searched 9
# A program that is published with its library.
lib "$PKG/lib/libprog.so" prog 5
lib "$PKG/search/libother.so" other 6
gcc -o "$PKG/bin/user" "$SOURCE" -DNEEDS=prog -DVALUE=5 "$PKG/lib/libprog.so" "-Wl,-rpath,$ORIGIN/../lib"
gcc -o "$PKG/bin/other" "$SOURCE" -DNEEDS=other -DVALUE=6 "$PKG/search/libother.so"
# An extension module of Python in a package.
extension=$("$PYTHON" -c 'import resource; print(resource.__file__)' 2>/dev/null) || skip "needs an extension module of python3"
mkdir "$PKG/ext" && : >"$PKG/ext/__init__.py" && cp "$extension" "$PKG/ext/"

cat >"$WORK/n0" <<'EOT'
set -e
cp -r "$WORK/pkg" "$DYAD_PATH/pkg"
until [ -e "$WORK/begun" ]; do sleep 0.02; done
sleep 0.2
mkdir "$DYAD_PATH/late" && cp "$WORK/pkg/plug/libplug.so" "$DYAD_PATH/late/liblate.so"
echo >"$DYAD_PATH/flag.made"
EOT
cat >"$WORK/n1" <<'EOT'
cd "$DYAD_PATH"
P=$DYAD_PATH/pkg
try() { "$@" || { echo "failed: $*" >&2; status=1; }; }
status=0
: >"$WORK/begun"
# What is not there yet is waited for by its path.
try "$WORK/outside/loads" dlopen "$DYAD_PATH/late/liblate.so" opened 7
cat flag.made >/dev/null
try "$WORK/outside/loads" dlopen "$P/libouter.so" outer 111
try "$WORK/outside/loads" dlopen pkg/libopens.so opens 7
try "$WORK/outside/loads" dlopen libmine.so opened 8
try env LD_LIBRARY_PATH="$P/search" "$WORK/outside/loads" dlopen libsearched.so searched 9
# Not published, looked for by a bare name: no wait.
! DYAD_WAIT=all env LD_LIBRARY_PATH="$P/search" "$WORK/outside/loads" dlopen libnowhere.so none 0 2>/dev/null || status=1
try pkg/bin/user linked
try env LD_LIBRARY_PATH="$P/search" PATH="$P/bin:$PATH" "$PYTHON" -c '
import subprocess
subprocess.run(["other", "linked"], check=True)'
exit $status
EOT
cat >"$WORK/n2" <<'EOT'
cat "$DYAD_PATH/flag.made" >/dev/null
P=$DYAD_PATH/pkg
"$WORK/outside/loads" dlmopen "$P/libouter.so" outer 111 || exit 1
cat >"$WORK/load.py" <<'EOF2'
import ctypes, os, subprocess, sys
p = sys.argv[1]
assert ctypes.CDLL(p + "/libouter.so").outer() == 111
assert ctypes.CDLL(p + "/libopens.so").opens() == 7
sys.path.insert(0, p)
import ext.resource
assert ext.resource.__file__.startswith(p) and ext.resource.getpagesize() > 0
subprocess.run([p + "/bin/user", "linked"], check=True)
EOF2
"$PYTHON" "$WORK/load.py" "$P"
EOT
local_job_ok 60 1@n0 bash "$WORK/n0" -- 1@n1 bash "$WORK/n1" -- 1@n2 bash "$WORK/n2"
