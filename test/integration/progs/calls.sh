#!/bin/bash
# calls.sh DIR RESULTS - ordinary calls of tools below DIR, a directory and a file of results for each
#
# A call ends by itself, or is ended after BOUND seconds, which its result says. OPENS: the program of that name; PYTHON.
set -u
dir=$1 results=$2
mkdir -p "$dir/home" "$dir/tmp" "$results"
export HOME=$dir/home TMPDIR=$dir/tmp LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
unset MAKEFLAGS XDG_CONFIG_HOME

# call NAME COMMAND...: a script of bash, on its standard input.
call() {
    local status=0
    mkdir -p "$dir/$1"
    cd "$dir/$1" || exit 1
    # The script is no argument: what a command line names is waited for, and this one would name all of it.
    cat >"$dir/tmp/$1.sh"
    timeout -k 1 "${BOUND:-30}" bash "$dir/tmp/$1.sh" >"$results/$1" 2>&1 </dev/null || status=$?
    [ $status -ne 124 ] || echo "TIMED OUT: it waited"
    echo "status $status" >>"$results/$1"
    if [ $status -eq 124 ]; then
        echo "TIMED OUT" >>"$results/$1"
        BOUND=10 # there will be more
    fi
}

sources() {
    cat >a.c <<'E'
#include <stdio.h>
#include <sys/types.h>
#include <math.h>
#include "inc.h"
int main(int n, char **v) { (void)v; printf("%d %.2f\n", X, sin(n)); return 0; }
E
    mkdir -p include lib
    echo '#define X 3' >include/inc.h
    echo 'int foo(void) { return 0; }' >foo.c
    printf 'int foo(void);\nint main(void) { return foo(); }\n' >m.c
}
export -f sources

# --- compilers, linkers, make ---
call gcc <<<'sources; gcc -I. -Iinclude -Llib -L. a.c -lm -o a && ./a'
call gcc_absolute <<<'sources; gcc -I"$PWD/include" -L"$PWD/lib" a.c -lm -o a && ./a'
call gcc_quote <<<'sources; mkdir src; cp a.c src; gcc -Iinclude -c src/a.c -o a.o && ls'
call gcc_missing <<<'sources; sed -i s/inc.h/nowhere_c2.h/ a.c; echo "#define X 4" >nowhere_c2.h; gcc -I. a.c -lm -o a && ./a'
call gch <<<'sources; gcc include/inc.h && gcc -Iinclude -include inc.h -c a.c && ls'
call cpp <<<'sources; cpp -Iinclude a.c | tail -1'
call gxx <<<'printf "#include <vector>\n#include <cstddef>\nint main() { std::vector<int> v; return v.size(); }\n" >v.cpp; g++ -I. v.cpp -o v && ./v'
call static_library <<<'sources; gcc -c foo.c && ar rcs lib/libfoo.a foo.o && gcc m.c -Llib -lfoo -o m && ./m'
call two_paths <<<'sources; mkdir other; gcc -c foo.c && ar rcs lib/libfoo.a foo.o && gcc m.c -Lother -Llib -lfoo -o m && ./m'
call shared_library <<<'sources; gcc -shared -fPIC foo.c -o lib/libfoo.so && gcc m.c -L. -Llib -lfoo -Wl,-rpath,"$PWD/lib" -o m && ./m'
call ld <<<'sources; gcc -c foo.c && ld -r -L. foo.o -o b.o && nm b.o | cut -c 18-'
call ar <<<'sources; gcc -c foo.c m.c && ar rc x.a foo.o && ar r x.a m.o && ar t x.a && ranlib x.a'
call make <<<'printf "all: x\nx: y\n\tcp y x\n-include deps.d\n" >Makefile; echo y >y; make; make'
call make_none <<<'make; echo $?'
call make_file <<<'printf "all:\n\t@echo other\n" >mk; make -f mk'
call cmake <<<'sources; printf "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(a a.c)\ntarget_include_directories(a PRIVATE include)\ntarget_link_libraries(a m)\n" >CMakeLists.txt; cmake -S . -B b >/dev/null && cmake --build b >/dev/null && b/a'
call gfortran <<<'printf "module mo\n integer :: a = 1\nend module\n" >mo.f90; printf "program us\n use mo\n print *, a\nend program\n" >us.f90; mkdir m; gfortran -c mo.f90 && gfortran -c mo.f90 && gfortran us.f90 mo.o -o us && ./us; gfortran -Jm -c mo.f90 && gfortran -Jm -c us.f90; ls . m'
# --- interpreters ---
call python_import <<<'echo x=1 >mod.py; mkdir pk; touch pk/__init__.py; echo y=2 >pk/m.py; "$PYTHON" -c "import mod, pk.m; print(mod.x, pk.m.y)"'
call python_again <<<'echo x=1 >mod.py; echo "import mod; print(mod.x)" >s.py; "$PYTHON" s.py; "$PYTHON" s.py; ls __pycache__ | wc -l'
call python_shelve <<<'"$PYTHON" -c "import shelve
d = shelve.open(\"shelf\"); d[\"a\"] = 1; d.close()
d = shelve.open(\"shelf\"); print(d[\"a\"]); d.close()"'
call python_dumb <<<'"$PYTHON" -c "import dbm, dbm.dumb, shelve
dbm._defaultmod = dbm.dumb
d = shelve.open(\"du\"); d[\"a\"] = 1; d.close()
d = shelve.open(\"du\"); print(d[\"a\"]); d.close()"'
call python_zip <<<'echo x >x; "$PYTHON" -c "import zipfile
zipfile.ZipFile(\"z.zip\", \"w\").write(\"x\"); print(zipfile.ZipFile(\"z.zip\").namelist())"'
call python_sqlite <<<'"$PYTHON" -c "import sqlite3
c = sqlite3.connect(\"t.db\"); c.execute(\"create table t(x)\"); c.execute(\"insert into t values(1)\"); c.commit(); c.close()
print(sqlite3.connect(\"file:t.db?mode=ro\", uri=True).execute(\"select * from t\").fetchall())"'
call python_venv <<<'"$PYTHON" -m venv --without-pip ve && ve/bin/python -c "import sys; print(sys.prefix != sys.base_prefix)"'
call python_compile <<<'echo x=1 >mod.py; "$PYTHON" -m compileall -q . && ls __pycache__ | wc -l'
call perl <<<'mkdir lib; perl -I. -Ilib -MList::Util=sum -e "use strict; use POSIX; print sum(1, 2), qq(\n)"'
call perl_do <<<'perl -e "print do(q(./none.pl)) ? 1 : 0, qq(\n)"'
call bash_login <<<'HOME=$PWD bash -lc "echo in"; HOME=$PWD bash -ic "echo in" 2>/dev/null'
call dash <<<'HOME=$PWD dash -lc "echo in"'
call awk <<<'seq 9 >n; awk "{s += \$1} END {print s}" n; sed -n 3p n; sort -r n | head -1; sed -i s/1/x/ n; cat n'
# --- data and archives ---
printf -v CDL 'netcdf t { dimensions: x = 2 ; variables: int v(x) ; data: v = 1, 2 ; }'
export CDL
call ncgen <<<'echo "$CDL" >t.cdl; ncgen -o t.nc t.cdl && ncdump t.nc'
call ncgen4 <<<'echo "$CDL" >t.cdl; ncgen -k nc4 -o t.nc t.cdl && ncdump -h t.nc && nccopy -k 1 t.nc u.nc && ncdump u.nc'
call ncdump_home <<<'echo "$CDL" >t.cdl; HOME=$PWD ncgen -o t.nc t.cdl && HOME=$PWD ncdump t.nc'
call ncks <<<'echo "$CDL" >t.cdl; ncgen -o t.nc t.cdl && HOME=$PWD ncks -h -O -v v t.nc u.nc && HOME=$PWD ncdump u.nc'
call ncap2 <<<'echo "$CDL" >t.cdl; ncgen -o t.nc t.cdl && HOME=$PWD ncap2 -h -O -s "w=v*2" t.nc u.nc && HOME=$PWD ncdump u.nc'
call h5dump <<<'echo "$CDL" >t.cdl; ncgen -k nc4 -o t.nc t.cdl && h5dump -d /v t.nc && h5ls t.nc'
call zip <<<'echo x >x; echo y >y; zip -q o.zip x && zip -q o.zip y && unzip -qo o.zip -d un && ls un'
call zip_suffix <<<'echo x >x; zip -q o x && zip -qr d un x; unzip -l o | tail -1; unzip nofile; echo $?'
call gzip <<<'echo x >x; gzip -k x; bzip2 -k x; gzip -dc x.gz; bunzip2 -c x.bz2; ls'
call tar <<<'mkdir d; echo x >d/x; tar cf o.tar d && tar rf o.tar d/x && tar tf o.tar && mkdir e && tar xf o.tar -C e && cat e/d/x; tar czf o.tgz d && tar tzf o.tgz'
call tar_snapshot <<<'mkdir d; echo x >d/x; tar -g snap -cf s.tar d && tar tf s.tar'
call rsync <<<'mkdir d; echo x >d/x; rsync -a d/ e/ && rsync -aFF d/ f/ && rsync -aC --delete d/ e/ && rsync -u d/x y && cat e/x f/x y'
call sqlite <<<'sqlite3 t.db "create table t(x); insert into t values(1);" && sqlite3 t.db "select * from t" && sqlite3 -readonly t.db .dump'
call sqlite_wal <<<'HOME=$PWD sqlite3 t.db "pragma journal_mode=wal; create table t(x); insert into t values(2); select * from t;"'
# One that has the journal open while it does nothing, and one that looks whether it has to be rolled back.
call sqlite_two <<<'"$PYTHON" -c "import sqlite3, subprocess, sys
c = sqlite3.connect(\"t.db\"); c.execute(\"pragma journal_mode=persist\"); c.execute(\"create table t(x)\")
c.execute(\"insert into t values(1)\"); c.commit()
subprocess.run([sys.executable, \"-c\", \"\"\"import sqlite3
print(sqlite3.connect(\\\"t.db\\\").execute(\\\"select * from t\\\").fetchall())\"\"\"])"'
call diff <<<'seq 9 >a; seq 8 >b; diff -u a b | tail -n +3; diff a b >p; patch -s a p && cmp a b; comm a b | wc -l; split -l 4 a s.; ls'
call busybox <<<'busybox seq 3 >n; busybox cat n; HOME=$PWD busybox ash -lc "echo in"; busybox tar cf n.tar n; busybox tar tf n.tar'
# --- versions, editors ---
call git <<<'git init -q -b main g && cd g && echo a >a && git add a && git commit -qm x && git status -s && git log --oneline && git diff && git checkout -q -b b && echo b >>a && git commit -qam y && git checkout -q main && git merge -q b && git stash list && git describe --always'
call git_clone <<<'git init -q -b main g && (cd g && echo a >a && git add a && git commit -qm x && git tag t) && git clone -q g h && cd h && git fetch -q && git pull -q && git blame -s a && git archive HEAD a | tar t && git fsck 2>&1 && git gc -q && git worktree list | wc -l && git submodule status && git cherry-pick --abort'
call git_home <<<'export HOME=$PWD; git init -q -b main g && cd g && echo a >a && git add a && git commit -qm x && git rev-parse HEAD && git shortlog -s </dev/null && git bisect log; git notes list'
call vim <<<'echo X >f; "$VIM_PROGRAM" -Nu NONE -es -c "%s/X/Y/" -c wq f; cat f'
call vim_home <<<'echo X >f; HOME=$PWD "$VIM_PROGRAM" -es -c "%s/X/Y/" -c wq f; cat f'
call vim_new <<<'"$VIM_PROGRAM" -es -u NONE -c "normal ihello" -c wq v.txt; cat v.txt'
call bc <<<'echo "1 + 1" | HOME=$PWD bc -q; HOME=$PWD less f 2>/dev/null || echo none'
# --- what is too big to be installed: what they open ---
call R <<<'export -n HOME; printf "%s\n" .Rprofile .Renviron .RData .Rhistory | (exec -a R "$OPENS" --no-echo)'
call gmx_energy <<<'echo e >r.edr; printf "%s\n" ener.edr topol.tpr r.edr e.xvg ./#e.xvg.1# | (exec -a gmx "$OPENS" energy -f r.edr -o e.xvg)'
call gmx_mdrun <<<'echo e >t.tpr; printf "%s\n" t.tpr r.xvg r.cpt r.gro r_step5.cpt r.trr r.top r.ndx r.log r.edr r.dat r.edi | (exec -a gmx "$OPENS" mdrun -s t.tpr -deffnm r)'
call gnuplot <<<'printf "%s\n" "$PWD/.gnuplot" | (exec -a gnuplot "$OPENS"); printf "%s\n" .octaverc ./.oct-config | (exec -a octave-cli "$OPENS"); echo n.pyc | (exec -a python3.11 "$OPENS")'
