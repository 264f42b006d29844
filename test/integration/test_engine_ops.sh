#!/bin/bash
# Directories, symbolic links and listings as the engine gives them to the wrapper.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
X=$PROGS/engine_ops
JOB_ENV+=("ENGINE_LIB=$LIB")

# What a rank does, and what it must say: lines that begin with "> ". WORK in a line is the directory $WORK.
# Ranks go by marks: "mark WORK/x", "until WORK/x".
script() {
    local name=$1
    sed "s,WORK,$WORK,g" >"$WORK/$name.all"
    grep -v '^>' "$WORK/$name.all" >"$WORK/$name"
    sed -n 's/^> //p' "$WORK/$name.all" >"$WORK/$name.expected"
}
run() { # NAME...: a rank on node n0, n1, ... for each
    local args=() name i=0
    rm -f "$WORK"/mark.*
    for name in "$@"; do
        args+=("1@n$i" "$X" "$SSD" "$WORK/$name" "$WORK/$name.out" --)
        i=$((i + 1))
    done
    unset 'args[-1]'
    job_ok 60 "${args[@]}"
    for name in "$@"; do
        diff "$WORK/$name.expected" "$WORK/$name.out" || fail "$name said something else (<: expected)"
    done
}

# A tree that one rank makes: what the others see, bring and remove.
script make <<'S'
mkdir d
chmod 750 d
mkdir d/empty
mkdir d/sub
write d/sub/never text
symlink ../d/sub d/link
symlink /nowhere/at/all dangling
mkdir d/sub2
mkdir d/sub2/deep
mkdir d/sub2/deep/er
chmod 711 d/sub2/deep/er
write d/sub2/deep/er/file hello
mark WORK/mark.made
until WORK/mark.seen
rmdir d/empty
list d
> list d: 0 link:link sub2:dir sub:dir
mark WORK/mark.removed
until WORK/mark.done
# Nothing else was in it: it went with the rename. The new one comes when it is asked for.
here d
> here d: ENOENT
get e/sub2/deep/er/file
> get e/sub2/deep/er/file: 0
here e/sub2/deep/er/file
> here e/sub2/deep/er/file: file 644
here e/sub2/deep/er
> here e/sub2/deep/er: dir 711
S
script look <<'S'
until WORK/mark.made
lookup d
> lookup d: dir 750 0
lookup d/link
> lookup d/link: link 777 8
lookup d/sub2/deep/er
> lookup d/sub2/deep/er: dir 711 0
lookup d/none
> lookup d/none: ENOENT
list .
> list : 0 d:dir dangling:link
list d
> list d: 0 empty:dir link:link sub2:dir sub:dir
list d/none
> list d/none: 0
list d/sub/never
> list d/sub/never: 0
get d
> get d: 0
here d
> here d: dir 750
get dangling
> get dangling: 0
here dangling
> here dangling: link 777 -> /nowhere/at/all
get dangling/x
> get dangling/x: ESTALE
get d/link
> get d/link: 0
here d/link
> here d/link: link 777 -> ../d/sub
get d/empty
> get d/empty: 0
parents d/sub2/deep/er/none
> parents d/sub2/deep/er/none: 0
here d/sub2/deep/er
> here d/sub2/deep/er: dir 711
here d/sub2/deep/er/file
> here d/sub2/deep/er/file: ENOENT
parents d/nodir/x
> parents d/nodir/x: ENOENT
parents d/link/x
> parents d/link/x: ESTALE
mark WORK/mark.1
until WORK/mark.removed
here d/empty
> here d/empty: ENOENT
here d/sub2
> here d/sub2: dir 755
mark WORK/mark.renaming
S
script tree <<'S'
until WORK/mark.made
parents dangling/x
> parents dangling/x: ESTALE
tree d
> tree d: 0
here d/sub/never
> here d/sub/never: file 644
here d/link
> here d/link: link 777 -> ../d/sub
here d/sub2/deep/er/file
> here d/sub2/deep/er/file: file 644
here d/empty
> here d/empty: dir 755
until WORK/mark.1
mark WORK/mark.seen
until WORK/mark.removed
here d/empty
> here d/empty: ENOENT
until WORK/mark.renaming
# All of it is here: so all of it gets its new name.
rename d e
> rename d: 0
list .
> list : 0 dangling:link e:dir
list e
> list e: 0 link:link sub2:dir sub:dir
list d
> list d: 0
lookup d/sub2/deep/er/file
> lookup d/sub2/deep/er/file: ENOENT
lookup e/sub2/deep/er/file
> lookup e/sub2/deep/er/file: file 644 5
unlink dangling
list .
> list : 0 e:dir
mark WORK/mark.done
S
run make look tree

# Waiting below a name that becomes a link; directories that are implied, made again, or in the way of a file;
# what changes a file by its name.
clean_ssd
script owner <<'S'
until WORK/mark.waiting
mkdir real
write real/file 12345
symlink real late
write real/other 1
until WORK/mark.unlinked
symlink real late
mark WORK/mark.again
until WORK/mark.looked
# Not told to the engine, but a file is published below them.
mkdir-quietly q
mkdir-quietly q/r
write q/r/file x
mkdir p
mark WORK/mark.p
until WORK/mark.p-seen
write real/file 123456789
chmod 600 real/file
touch 1000000000 real/other
mark WORK/mark.changed
until WORK/mark.changed-seen
rmdir p
mkdir p
chmod 711 p
list .
> list : 0 late:link p:dir q:dir real:dir
rmdir p
write p file
# Nobody has published it, and chmod does not either.
put staged
chmod 600 staged
lookup staged
> lookup staged: ENOENT
mark WORK/mark.file
until WORK/mark.end
S
script waiter <<'S'
mark WORK/mark.waiting
consume late/file
> consume late/file: ESTALE
here late
> here late: link 777 -> real
consume real/file
> consume real/file: 0
mark WORK/mark.got
until WORK/mark.p
get p
> get p: 0
lookup p
> lookup p: dir 755 0
lookup q
> lookup q: dir 755 0
lookup q/r
> lookup q/r: dir 755 0
list q/r
> list q/r: 0 file:file
mark WORK/mark.p-seen
until WORK/mark.changed
# The copy is outdated: gone, whatever its times.
here real/file
> here real/file: ENOENT
lookup real/file
> lookup real/file: file 600 9
get real/file
> get real/file: 0
here real/file
> here real/file: file 600
lookup real/other
> lookup real/other: file 644 1
mark WORK/mark.changed-seen
until WORK/mark.file
lookup p
> lookup p: file 644 4
get p
> get p: 0
here p
> here p: file 644
mark WORK/mark.end
S
script onlooker <<'S'
until WORK/mark.got
get real/file
> get real/file: 0
chmod 640 real/file
lookup real/file
> lookup real/file: file 640 5
touch 0 real/file
lookup real/other
> lookup real/other: file 644 1
lookup late/file
> lookup late/file: ESTALE
here late
> here late: link 777 -> real
lookup late/file
> lookup late/file: ESTALE
unlink late
lookup late/file
> lookup late/file: ENOENT
mark WORK/mark.unlinked
until WORK/mark.again
# Not here at all, and not to be waited for: but it is below a link that is published.
get late/none
> get late/none: ESTALE
here late
> here late: link 777 -> real
get nothing/at/all
> get nothing/at/all: ENOENT
get real/nothing/at/all
> get real/nothing/at/all: ENOENT
mark WORK/mark.looked
until WORK/mark.end
S
run owner waiter onlooker

# Many names in one directory and many directories, from all ranks at once; each comes once.
clean_ssd
for rank in 0 1 2; do
    script many$rank <<S
mkdir all
many all 1500
mkdir own$rank
mark WORK/mark.all$rank
until WORK/mark.all0
until WORK/mark.all1
until WORK/mark.all2
count all
> count all: 0 4500 0
list .
> list : 0 all:dir own0:dir own1:dir own2:dir
mark WORK/mark.end$rank
until WORK/mark.end0
until WORK/mark.end1
until WORK/mark.end2
S
done
run many0 many1 many2

# Two ranks with one directory on their node, and one elsewhere: all the same, whoever of the two does it.
clean_ssd
script here1 <<'S'
mkdir d
write d/f text
symlink f d/l
mark WORK/mark.1
until WORK/mark.2
list d
> list d: 0 f2:file l2:link sub:dir
mark WORK/mark.listed
until WORK/mark.4
S
script here2 <<'S'
until WORK/mark.1
get d/f
> get d/f: 0
chmod 600 d/f
rename d/f d/f2
> rename d/f: 0
rename d/l d/l2
> rename d/l: 0
mkdir d/sub
chmod 700 d
mark WORK/mark.2
until WORK/mark.3
until WORK/mark.listed
unlink d/f2
unlink d/l2
rmdir d/sub
rmdir d
list .
> list : 0
mark WORK/mark.5
until WORK/mark.4
S
script there <<'S'
until WORK/mark.2
lookup d
> lookup d: dir 700 0
lookup d/f
> lookup d/f: ENOENT
lookup d/f2
> lookup d/f2: file 600 4
tree .
> tree .: 0
here d
> here d: dir 700
here d/l2
> here d/l2: link 777 -> f
here d/sub
> here d/sub: dir 755
mark WORK/mark.3
until WORK/mark.5
here d
> here d: ENOENT
list d
> list d: 0
mark WORK/mark.4
# All others end: nobody is left who could make it, as file or below a link.
consume never/at/all
> consume never/at/all: ENOENT
S
rm -f "$WORK"/mark.*
job_ok 60 1@n0 "$X" "$SSD" "$WORK/here1" "$WORK/here1.out" -- 1@n0 "$X" "$SSD" "$WORK/here2" "$WORK/here2.out" -- \
    1@n1 "$X" "$SSD" "$WORK/there" "$WORK/there.out"
for name in here1 here2 there; do
    diff "$WORK/$name.expected" "$WORK/$name.out" || fail "$name said something else (<: expected)"
done

# Three ranks change few names as they like, directories and files and links in each other's way. Whoever won: all
# ranks see one tree.
storm() {
    local seed=$1 rank
    clean_ssd
    for rank in 0 1 2; do
        script storm$rank <<S
storm 250
mark WORK/mark.over$rank
until WORK/mark.over0
until WORK/mark.over1
until WORK/mark.over2
all
mark WORK/mark.end$rank
until WORK/mark.end0
until WORK/mark.end1
until WORK/mark.end2
S
    done
    rm -f "$WORK"/mark.*
    JOB_ENV+=(DYAD_WAIT=none "STORM_SEED=$seed")
    say "storm with seed $seed"
    job_ok 60 1@n0 "$X" "$SSD" "$WORK/storm0" "$WORK/storm0.out" -- 1@n1 "$X" "$SSD" "$WORK/storm1" "$WORK/storm1.out" -- \
        1@n2 "$X" "$SSD" "$WORK/storm2" "$WORK/storm2.out"
    JOB_ENV=("${JOB_ENV[@]:0:${#JOB_ENV[@]}-2}")
    for rank in 1 2; do
        diff "$WORK/storm0.out" "$WORK/storm$rank.out" || fail "ranks 0 and $rank see different trees"
    done
    ! grep 'in the list' "$WORK/storm0.out" || fail "listing and look-up differ"
}
storms=2
[ $LEVEL != soak ] || storms=100
for ((seed = 1; seed <= storms; seed++)); do
    storm $seed
done

# Where as many ranks are silent as an entry has homes, a listing says that it is not whole, and soon.
clean_ssd
script deaf1 <<S
mkdir d
freeze 4 WORK/mark.deaf1
until WORK/mark.end
S
script deaf2 <<S
until WORK/mark.deaf1
freeze 4 WORK/mark.deaf2
until WORK/mark.end
S
script alone <<S
until WORK/mark.deaf2
list .
> list : EHOSTUNREACH
mark WORK/mark.end
S
JOB_ENV+=(DYAD_PEER_TIMEOUT=1)
run deaf1 deaf2 alone

# A rank that execs loses its shard and remembers what it has published; one that is stopped is passed over: each
# entry has another home.
clean_ssd
{
    for i in 1 2 3 4 5 6 7 8 9; do
        printf 'mkdir d%s\nsymlink d%s l%s\n' $i $i $i
    done
    echo "exec $WORK/before2"
} >"$WORK/before"
every=$(for i in 1 2 3 4 5 6 7 8 9; do printf ' d%s:dir' $i; done; for i in 1 2 3 4 5 6 7 8 9; do printf ' l%s:link' $i; done)
script before2 <<S
list .
> list : 0$every
rmdir d9
mkdir d9
mkdir d1/new
mark WORK/mark.back
until WORK/mark.end
S
mv "$WORK/before2.expected" "$WORK/before.expected"
script frozen <<S
until WORK/mark.back
freeze 3 WORK/mark.frozen
list .
> list : 0$every
mark WORK/mark.end
S
script after <<S
until WORK/mark.frozen
list .
> list : 0$every
list d1
> list d1: 0 new:dir
lookup l9
> lookup l9: link 777 2
get l9
> get l9: 0
get d9
> get d9: 0
until WORK/mark.end
S
run before frozen after

# Switched off: it says so, and what does not need it goes on.
clean_ssd
JOB_ENV+=(DYAD_LISTING=off)
script off <<'S'
mkdir d
write d/f text
list d
> list d: EOPNOTSUPP
tree d
> tree d: EOPNOTSUPP
mark WORK/mark.off
until WORK/mark.end
S
script off2 <<'S'
until WORK/mark.off
lookup d
> lookup d: dir 755 0
parents d/f
> parents d/f: 0
mark WORK/mark.end
S
run off off2
