#!/bin/bash
# suites.sh DIR RESULTS NAME... - real programs at work below DIR: data, build trees, temporary files
#
# Each suite runs in DIR/NAME; what it prints, and its exit status, is what two runs must have in common. SOURCE: this
# project's source; SCALE: 1, or more in the long form; PYTHON.
set -u
dir=$1 results=$2
shift 2
mkdir -p "$dir/tmp" "$dir/home" "$results"
export TMPDIR=$dir/tmp HOME=$dir/home LC_ALL=C.UTF-8 TZ=UTC
unset MAKEFLAGS XDG_CONFIG_HOME

# Every file below here: name, mode, size and sum.
tree() {
    find . -name .dyad -prune -o "$@" -type f -print0 | LC_ALL=C sort -z |
        xargs -0 -r sh -c 'stat -c "%A %s %n" "$@" && sha256sum "$@"' _
}

s_sqlite() {
    local journal i
    for journal in DELETE WAL TRUNCATE; do
        sqlite3 $journal.db "PRAGMA journal_mode=$journal; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INT);"
        for ((i = 0; i < 10 * SCALE; i++)); do
            sqlite3 $journal.db "BEGIN; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<200)
                INSERT INTO t(v, n) SELECT 'row ' || x || ' of $i', x * $i FROM c; DELETE FROM t WHERE n % 7 = 3; COMMIT;"
        done
        sqlite3 $journal.db "BEGIN; DELETE FROM t; ROLLBACK; CREATE INDEX vi ON t(v); VACUUM; PRAGMA integrity_check;
            SELECT count(*), sum(n), max(v) FROM t;"
        # Two processes that take each other's locks.
        sqlite3 -cmd '.timeout 20000' $journal.db "CREATE TABLE c(n INT); INSERT INTO c VALUES(0);"
        for who in 1 2; do
            (for ((i = 0; i < 10; i++)); do
                sqlite3 -cmd '.timeout 20000' $journal.db 'BEGIN IMMEDIATE; UPDATE c SET n = n + 1; COMMIT;' || echo "writer $who: $?"
            done) &
        done
        wait
        # One that does not wait finds it locked.
        mkfifo hold.$journal
        sqlite3 $journal.db <hold.$journal >held.$journal &
        exec 7>hold.$journal
        echo "BEGIN EXCLUSIVE; SELECT 'held';" >&7
        until [ -s held.$journal ]; do sleep 0.02; done
        sqlite3 $journal.db "UPDATE c SET n = -1;" 2>&1
        exec 7>&-
        wait
        rm hold.$journal
        sqlite3 $journal.db "SELECT n FROM c; PRAGMA integrity_check;"
        sqlite3 $journal.db ".backup copy.db" && sqlite3 copy.db "SELECT count(*) FROM t; PRAGMA integrity_check;"
        sqlite3 $journal.db .dump | sqlite3 again.$journal.db && sqlite3 again.$journal.db "SELECT count(*), sum(n) FROM t;"
    done
    ls
}

s_git() {
    local i
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
    export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
    git init -q -b main work && cd work || return
    cp -r "$SOURCE/src/util" "$SOURCE/include" .
    git add . && git commit -q -m first
    for ((i = 0; i < 5 * SCALE; i++)); do
        echo "change $i" >>util/log.c
        seq $((i * 100)) >"file $i"
        git add -A && git commit -q -m "change $i"
    done
    git checkout -q -b side HEAD~2
    echo side >side && git add side && git commit -q -m side
    git mv util/log.c util/logging.c && git commit -q -m moved
    git checkout -q main && git merge -q -m merged side && git tag v1
    git stash list
    echo dirty >>"file 0" && git stash -q && git stash pop -q && git checkout -q -- . && git status --short
    git rebase -q side 2>&1 | tail -1
    git worktree add -q ../tree side && (cd ../tree && echo more >more && git add more && git commit -q -m more && git status --short)
    git worktree list | sed 's/.*\[/[/'
    git gc -q --prune=now && git fsck --strict 2>&1 && git count-objects -v | grep -v size
    git clone -q . ../clone && git clone -q --no-local --depth 2 "file://$PWD" ../shallow 2>&1
    (cd ../clone && git log --format='%T %s' --all && git fsck 2>&1 && git pull -q && echo x >x && git add x && git commit -q -m x &&
        git push -q origin HEAD:pushed)
    git log --format='%T %s' --all && git diff --stat v1 side | cat
    git archive v1 | tar t
    git bundle create -q ../all.bundle --all && git bundle verify -q ../all.bundle 2>&1
    git worktree remove ../tree && git repack -adq && git fsck 2>&1
    cd .. && tree -name .git -prune -o -name '*.bundle' -prune -o
}

s_make() {
    mkdir src && cp -r "$SOURCE/src/util" src/ && cp -r "$SOURCE/include" .
    cat >Makefile <<'END'
objects := $(patsubst %.c,%.o,$(wildcard src/util/*.c))
all: libutil.a libutil.so prog
%.o: %.c ; gcc -D_GNU_SOURCE -std=gnu11 -O1 -g -fPIC -MMD -pipe -save-temps=obj -Isrc -Iinclude -c $< -o $@
libutil.a: $(objects) ; ar rcsD $@ $^
libutil.so: $(objects) ; gcc -shared -o $@ $^
prog: prog.c libutil.a ; gcc -Isrc -D_GNU_SOURCE -o $@ $^ -lpthread
prog.c: ; echo '#include "util/path.h"' >$@; echo '#include <stdio.h>' >>$@; echo 'int main(void) { return puts("built") < 0; }' >>$@
-include $(objects:.o=.d)
END
    make -s -j 3 2>&1 && make -q && ./prog
    touch src/util/log.h && make -s -j 3 -n | wc -l && make -s 2>&1 && make -q && echo up to date
    nm -g --defined-only libutil.a | grep ' T ' | sort | sed 's/^[0-9a-f]* //'
    strip -o stripped prog && ./stripped && objcopy --only-keep-debug prog prog.debug && rm prog.debug
    tree -name '*.so' -prune -o -name '*.o' -prune -o -name '*.a' -prune -o -name prog -prune -o -name '*.s' -prune -o -name stripped -prune -o -name '*.i' -prune -o
}

s_cmake() {
    cmake -S "$SOURCE" -B build -G Ninja -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Debug >cmake.log 2>&1 || { tail cmake.log; return 1; }
    ninja -C build -j 2 $CMAKE_TARGETS >ninja.log 2>&1 || { tail -n 20 ninja.log; return 1; }
    ninja -C build -n $CMAKE_TARGETS | tail -n 1
    touch build/CMakeCache.txt && ninja -C build $CMAKE_TARGETS >ninja.log 2>&1; echo $?
    find build -name '*.so*' -o -name '*.a' -o -name '*.o' | sort
}

s_archives() {
    local kind
    mkdir in && cp -r "$SOURCE/src" "$SOURCE/docs" in/ && ln in/docs/dht.md in/hard && mkdir in/empty && : >in/none
    chmod 600 in/src/util/log.c && touch -d '2001-02-03 04:05:06' in/src/util/log.h
    for kind in cf czf cjf; do
        tar -$kind out.$kind.tar --sort=name in && mkdir un.$kind && tar -C un.$kind -xf out.$kind.tar && tar -df out.$kind.tar && diff -r in un.$kind/in && echo $kind
    done
    tar -rf out.cf.tar Makefile 2>&1 | head -1
    tar --delete -f out.cf.tar in/none && tar -tf out.cf.tar | wc -l
    zip -qr out.zip in && unzip -tq out.zip && mkdir un.zip && unzip -q out.zip -d un.zip && diff -r in un.zip/in
    zip -qd out.zip 'in/docs/*' && zip -qu out.zip in/none; unzip -l out.zip | tail -1 | awk '{print $2}'
    (cd un.zip && find in -type f | cpio -o --quiet 2>/dev/null | (mkdir ../un.cpio && cd ../un.cpio && cpio -idm --quiet 2>/dev/null)); diff -r un.zip un.cpio 2>&1 | head -3
    ls -l --time-style=+%s in/src/util/log.h un.cf/in/src/util/log.h un.zip/in/src/util/log.h | awk '{print $1, $2, $5, $6, $7}'
    stat -c %h un.cf/in/hard
    tree -name 'out.*' -prune -o
}

s_rsync() {
    # rsync compares whole seconds: what is changed below must differ from what was there.
    mkdir in && cp -r "$SOURCE/src" in/ && mkdir in/empty && find in -exec touch -d @1000000000 {} +
    rsync -a in/ out && rsync -ain in/ out && echo nothing to do
    rsync -a in/ out && diff -r in out
    echo more >>in/src/util/log.c && rm in/src/util/path.c && touch in/src/util/log.h
    rsync -ai --delete in/ out | sort
    rsync -ain --delete in/ out && diff -r in out
    rsync -a --inplace --no-whole-file --checksum in/ out && rsync -aH --partial --delay-updates --link-dest="$PWD/out" in/ linked && diff -r in linked
    stat -c %h linked/src/util/log.c
    tree
}

s_edit() {
    local i
    for ((i = 0; i < 20; i++)); do seq -f "line %g of $i" 200 >e.$i; done
    sed -i 's/line/LINE/' e.0 && sed -i.bak 's/line 1/first/' e.1 && sed -i -e '1d' -e '$d' e.2 e.3
    perl -i -pe 's/of/OF/' e.4 && perl -i.orig -ne 'print unless /3/' e.5 e.6
    perl -e 'open F, "+<", "e.7"; seek F, 5, 0; print F "PERL"; close F; open F, ">>", "e.7"; print F "end\n"; close F; truncate "e.8", 100; rename "e.9", "e.9b"; unlink "e.10"; print -s "e.7", "\n"'
    bzip2 -k e.11 && bzip2 e.11 -c >e.11.again && cmp e.11.bz2 e.11.again && bzip2 e.12 && bunzip2 e.12.bz2 && bzip2 -t e.11.bz2
    gzip -n e.13 && gzip -t e.13.gz && gunzip e.13.gz && gzip -n e.14 && zcat e.14.gz | tail -n 1
    cp -a e.15 a.15 && cp -al e.15 l.15 && cp --reflink=auto -p e.16 p.16 && mv e.16 m.16 && mkdir sub && mv m.16 sub/ && cp -u e.15 sub/ && cp -b e.17 e.15
    install -m 640 e.17 sub/installed && install -D -t new/dir e.17 e.18 && cp -r sub copied && ln e.18 hard && echo more >>hard && tail -n 1 e.18
    split -n l/4 e.19 part. && cat part.* | cmp - e.19 && csplit -sz e.19 /50/ '{1}' && ls xx* && truncate -s 10 xx00 && shred -u xx01 && ls xx*
    ed -s e.17 <<<$'1d\nw\nq' 2>/dev/null || sed -i 1d e.17
    ls -i hard e.18 | awk '{print $1}' | uniq | wc -l
    touch -d @1000000000 e.0 && find . -newer e.0 -name 'e.1' ; find . -size +0 -type f | wc -l; du -a --apparent-size . 2>/dev/null | wc -l
    tree
}

s_sort() {
    seq 1 $((100000 * SCALE)) | awk '{ print ($1 * 7919) % 1000003, $1 }' >in
    mkdir temporaries
    sort -n -T temporaries -S 300k --parallel=2 in >out && sort -nc out && wc -l <out
    sort -n -S 300k in | cmp - out && sort -T temporaries -S 200k -u -o in in && ls temporaries | wc -l
    sort -m out out -n -T temporaries | wc -l
    tree
}

s_python() {
    "$PYTHON" "$(dirname "$0")/suite.py" && tree -name '*.zip' -prune -o -name '*.tar*' -prune -o -name '*.db' -prune -o -name __pycache__ -prune -o
}

s_hdf5() {
    seq 1 5000 >numbers
    h5import numbers -d 50,100 -p /group/numbers -t TEXTIN -s 32 -o a.h5 2>&1 || h5import numbers -dims 50,100 -path /group/numbers -type TEXTIN -size 32 -outfile a.h5
    h5repack -f GZIP=6 -l CHUNK=10x100 a.h5 b.h5 && h5diff a.h5 b.h5 && h5copy -i b.h5 -o c.h5 -s /group/numbers -d /copied && h5dump -H b.h5 c.h5 | grep -v HDF5
    h5repack b.h5 d.h5 && h5ls -r d.h5 && h5stat d.h5 | grep -i 'total raw'
    printf 'netcdf t { dimensions: x = 100 ; t = UNLIMITED ; variables: double v(t, x) ; data: v = %s ; }\n' "$(seq -s, 1 1000)" >t.cdl
    for kind in classic nc4 64-bit-offset; do
        ncgen -k $kind -o $kind.nc t.cdl && nccopy -k classic $kind.nc $kind.classic.nc && nccopy -k nc4 -d 5 $kind.nc $kind.4.nc &&
            ncdump $kind.4.nc | sed 1d | sha256sum
    done
    cmp nc4.classic.nc classic.classic.nc && ls
}

for name; do
    mkdir -p "$dir/$name"
    (cd "$dir/$name" && "s_$name"; echo "status $?") >"$results/$name" 2>&1
done
ls -A "$dir/tmp" >"$results/left"
