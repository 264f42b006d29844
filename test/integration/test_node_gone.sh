#!/bin/bash
# A node is gone for good, with all its ranks and without a word: the ranks of the others go on. What only it had fails
# within the bound, what was copied is read where it was copied to, all else is as if it had never been.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 4
X=$PROGS/xfer
EHOSTUNREACH=113
JOB_ENV+=(DYAD_INLINE_MAX=0) # small files, too, are where their owner is
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)

job_begin 100 2@n0 bash -c "$RANK"'
    r=$PMIX_RANK
    wait_for flag.written
    [ $r = 1 ] || "$X" read -d "$SSD" -p copied -n 20
    "$X" write -d "$SSD" -p "own.$r" -n 20
    made "flag.copied.$r"
    wait_for flag.gone
    timed first "$X" read -d "$SSD" -p gone -E '$EHOSTUNREACH'
    timed again "$X" read -d "$SSD" -p gone -n 5 -t 5 -E '$EHOSTUNREACH'
    timed copied "$X" read -d "$SSD" -p copied -n 20
    timed new "$X" write -d "$SSD" -p "new.$r" -n 20
    timed absent bash -c "for i in {0..19}; do [ ! -e \"\$SSD/absent.\$i\" ] || exit 1; done"
    timed list bash -c "ls \"\$SSD\" >\"\$W/list.\$PMIX_RANK\""
    # From here on names are made and removed that the other has asked for.
    made "flag.asked.$r"; wait_for flag.asked.$((1 - r))
    [ $r = 1 ] || "$X" write -d "$SSD" -p gone -s 7000
    [ $r = 0 ] || rm "$SSD/gone.000001"
    made "flag.new.$r"; wait_for flag.new.$((1 - r))
    [ ! -e "$SSD/gone.000001" ] || exit 1
    "$X" read -d "$SSD" -p gone -s 7000
    made "ok.$r"; exit' -- \
    1@n1 bash -c "$RANK"'
    wait_for flag.gone
    timed waits "$X" read -d "$SSD" -p "new.0" -n 20
    timed far "$X" read -d "$SSD" -p copied -E '$EHOSTUNREACH'
    timed own "$X" read -d "$SSD" -p own.0 -n 20
    timed stat bash -c "stat -c %s \"\$SSD/gone.000003\" >\"\$W/stat\" 2>&1 || :"
    wait_for flag.new.0; wait_for flag.new.1
    "$X" read -d "$SSD" -p gone -s 7000
    [ ! -e "$SSD/gone.000001" ] || exit 1
    timed list bash -c "ls \"\$SSD\" >\"\$W/list.\$PMIX_RANK\""
    made ok.2; exit' -- \
    1@n2 bash -c "$RANK"'
    "$X" write -d "$SSD" -p copied -n 20
    "$X" write -d "$SSD" -p gone -n 5
    made flag.written
    wait_for flag.never'
for rank in 0 1; do
    until_true 30 "rank $rank has its copies" test -e "$WORK/flag.copied.$rank"
done
node_lost() {
    "$CLUSTER_SH" kill "$1"
    local -a others=()
    local node
    for node in "${NODES[@]}"; do
        [ "$node" = "$1" ] || others+=("$node")
    done
    NODES=("${others[@]}")
    : >"$WORK/flag.gone"
}

node_lost n2
# mpirun still waits for the node, and does not count.
job_over 60 0 1 2
# As docs/reliability.md has it: J + 2 P + 1 s, and when it has been lost for J a second for each that must be asked again.
took first 7
took again 3
took far 7
took copied 1
took own 3
took new 3
took absent 2
took list 2
for rank in 0 1 2; do
    names=$(sort "$WORK/list.$rank" | sed 's/\..*//' | uniq -c | tr -s ' \n' ' ')
    say "list of rank $rank:$names"
    [ "$(grep -c '^new\.' "$WORK/list.$rank")" -ge 20 ] && [ "$(grep -c '^own\.' "$WORK/list.$rank")" = 40 ] || fail "not whole: $names"
done
say "stat of what is gone: $(cat "$WORK/stat")"
grep -q '"gone.000000" cannot be fetched: its owner, rank 3 on node n2' "$LOG" || fail "no word of file, owner and node"

# Of a node with as many ranks as there are replicas: what the others write is read, but a listing cannot be known to be
# whole, and fails.
rm -f "$WORK"/flag.* "$WORK"/ok.* "$WORK"/took.*
job_begin 60 2@n0,n1 bash -c "$RANK"'
    r=$PMIX_RANK
    "$X" write -d "$SSD" -p "before.$r" -n 20
    made "flag.written.$r"
    wait_for flag.gone
    "$X" write -d "$SSD" -p "after.$r" -n 20
    timed read "$X" read -d "$SSD" -p "after.$((1 - r))" -n 20
    timed before "$X" read -d "$SSD" -p "before.$((1 - r))" -n 20
    timed list bash -c "! ls \"\$SSD\" >/dev/null 2>\"\$W/list.\$PMIX_RANK\""
    made "ok.$r"; exit' -- \
    2@n3 bash -c "$RANK"'
    "$X" write -d "$SSD" -p "gone.$PMIX_RANK" -n 20
    made "flag.written.$PMIX_RANK"
    wait_for flag.never'
for rank in 0 1 2 3; do
    until_true 30 "rank $rank has written" test -e "$WORK/flag.written.$rank"
done
node_lost n3
job_over 60 0 1
took read 7
took before 7
took list 7
for rank in 0 1; do
    grep -q 'No route to host' "$WORK/list.$rank" || fail "the listing: $(cat "$WORK/list.$rank")"
done
