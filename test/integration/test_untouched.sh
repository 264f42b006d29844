#!/bin/bash
# Programs that never touch a managed directory: they start no thread and open no library, launched or not;
# and ranks that end while they join.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 1

# The pids of bash -c true as its own parent sees them, and the libraries that each opens. In a pid namespace
# of its own the numbers follow each other: a thread that a program starts, however short it lives, takes one.
cat >"$WORK/row.sh" <<'EOS'
out=$1
for ((i = 0; i < 12; i++)); do
    bash -c 'echo $$' >>"$out.pids"
done
LD_DEBUG=files LD_DEBUG_OUTPUT=$out.ld bash -c true
bash -c 'while read -r _ _ _ _ _ file; do case $file in *.so*) echo "$file" ;; esac; done </proc/$$/maps
    for task in /proc/$$/task/*; do echo task; done' | sort | uniq >"$out.maps"
EOS
look() {
    local out=$1 least
    least=$(awk 'NR > 1 {print $1 - last} {last = $1}' "$out.pids" | sort -n | head -n 1)
    [ "$least" = 1 ] || fail "each bash -c true takes $least numbers of processes ($out)"
    # What the loader opened, by name; the wrapper (and a sanitizer's runtime) apart.
    cat "$out".ld.* | sed -n 's/.*calling init: *//p' | grep -v -e libdyad_wrapper -e san.so | sort >"$out.inits"
}
row() {
    node_exec n0 "${@:2}" bash "$WORK/row.sh" "$WORK/$1"
    look "$WORK/$1"
}
row plain env
row unlaunched env LD_PRELOAD="$PRELOAD" DYAD_PATH="$SSD"
grep -q libdyad_wrapper "$WORK/unlaunched.maps" || fail "the wrapper is not in the unlaunched program"

# Guests: the rank's first process has joined when its own look-up has been answered.
job_ok 40 1@n0 bash -c '[ ! -e "$0/none" ]; bash "$1/row.sh" "$1/guest"' "$SSD" "$WORK"
look "$WORK/guest"
for kind in unlaunched guest; do
    diff "$WORK/plain.inits" "$WORK/$kind.inits" || fail "bash -c true opens other libraries where it is $kind"
    [ "$(grep -c task "$WORK/$kind.maps")" -eq 1 ]
    # libdl and libpthread are names for libc.
    diff <(grep -v -e libdyad_wrapper -e san.so "$WORK/$kind.maps") "$WORK/plain.maps" ||
        fail "other files are mapped where it is $kind"
done

# Ranks that end at any moment of their joining: always with status 0, soon, and nothing is left.
launches=100
[ $LEVEL != soak ] || launches=1000
worst=0
for ((i = 1; i <= launches; i++)); do
    begin=$EPOCHREALTIME status=0
    job 20 2@n0 "$PROGS/exit_at" || status=$?
    took=$(awk "BEGIN {printf \"%d\", ($EPOCHREALTIME - $begin) * 1000}")
    [ $status -eq 0 ] || fail "launch $i ended with status $status after $took ms"
    [ "$took" -le $worst ] || worst=$took
done
nothing_left
sanitizers_silent
say "$launches launches of two ranks that end while they join: the longest took $worst ms"
