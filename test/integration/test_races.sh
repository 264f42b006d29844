#!/bin/bash
# Waits that must end: an opener that died in its open, a writer that changes nothing, writers that open at
# once, a write after the end.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2

# A process was killed between the mark and the open; the file is what it was.
job_ok 40 1@n0 bash -c 'echo whole >"$0/marked"; LD_PRELOAD= "$1" "$0" marked && [ "$(cat "$0/marked")" = whole ]' \
    "$SSD" "$PROGS/leave_mark" -- 1@n1 true

JOB_ENV+=(DYAD_INLINE_MAX=0) # a GET is what is refused and waited for here
# The owner has the file open for writing while another node asks for it: unchanged it is served; one that was written in
# place is not what was published, and is waited for.
job_ok 60 1@n0 bash -c '
    echo same >"$0/held"
    sleep 0.2 # a file that was written just before the open counts as written
    exec 3<>"$0/held"
    echo >"$0/go"
    until [ -e "$2/read" ]; do sleep 0.05; done
    exec 3>&-
    echo old >"$0/changed"
    sleep 0.2
    exec 3<>"$0/changed"
    printf n >&3
    echo >"$0/go.on"
    for seen in 1 2 3; do
        until "$1/dyad-dht-dump" --waiting 2>&1 | grep -q changed; do sleep 0.1; done
        sleep 0.2
    done
    printf ew >&3
    exec 3>&-' "$SSD" "$BIN" "$WORK" -- \
    1@n1 bash -c 'cat "$0/go" && [ "$(cat "$0/held")" = same ] && : >"$1/read" && cat "$0/go.on" && [ "$(cat "$0/changed")" = new ]' "$SSD" "$WORK"

# Who wrote the file here was killed over it, and another node publishes it: that one is read here.
job_ok 60 1@n0 bash -c 'until [ -e "$1/killed" ]; do sleep 0.05; done; echo elsewhere >"$0/left"' "$SSD" "$WORK" -- \
    1@n1 bash -c '(exec 3>"$0/left"; echo half >&3; kill -9 $BASHPID); : >"$1/killed"; [ "$(cat "$0/left")" = elsewhere ]' "$SSD" "$WORK"

# The same, but he is alive for a while: what another node has published is not fetched again and again meanwhile, and
# is read when he has been killed. What he had published instead would be read as well.
for end in 'kill -9 $BASHPID' 'exec 3>&-'; do
    : >"$LOG"
    rm -f "$WORK/published" "$WORK/begun"
    job_ok 60 1@n0 bash -c 'head -c 1000000 /dev/zero >"$0/late"; : >"$1/published"' "$SSD" "$WORK" -- \
        1@n1 bash -c 'until [ -e "$1/published" ]; do sleep 0.05; done
        (exec 3>"$0/late"; echo half >&3; : >"$1/begun"; sleep 2; '"$end"') &
        until [ -e "$1/begun" ]; do sleep 0.05; done
        cat "$0/late" | wc -c; wait $! || true' "$SSD" "$WORK"
    case $end in kill*) size=1000000 ;; *) size=5 ;; esac
    grep -qx $size "$OUT" || fail "$end: read $(cat "$OUT") bytes, not $size"
    served=$(sed -n 's/.*rank 0.*, served \([0-9]*\) bytes.*/\1/p' "$LOG" | tail -n 1)
    say "$end: served $served bytes of 1000000"
    [ "$served" -le 4000000 ] || fail "$end: fetched again and again: $served bytes"
    clean_ssd
done

# What a killed writer has left is given the name of a file that others have copies of: what had that name is nowhere
# any more, and the copies are out of date. Who is killed may have to be found dead first, and may have opened it twice, or what was whole.
for left in 'exec 3>"$0/part"; echo half >&3' 'exec 3>"$0/part" 4>>"$0/part"; echo half >&3' 'cp "$0/name" "$0/part"; exec 4>>"$0/part"'; do
    : >"$LOG"
    rm -f "$WORK"/{copied,moved,seen}
    job_ok 60 1@n0 bash -c '[ "$(cat "$0/name")" = before ]; : >"$1/copied"
        until [ -e "$1/moved" ]; do sleep 0.05; done
        [ ! -e "$0/name" ] && [ ! -e "$0/part" ] && : >"$1/seen" && [ "$(cat "$0/again")" = after ] && [ "$(cat "$0/name")" = after ]' "$SSD" "$WORK" -- \
        1@n1 bash -c 'echo before >"$0/name"
        until [ -e "$1/copied" ]; do sleep 0.05; done
        ('"$left"'; kill -9 $BASHPID)
        mv "$0/part" "$0/name"; : >"$1/moved"
        until [ -e "$1/seen" ]; do sleep 0.05; done
        echo after >"$0/name"; echo after >"$0/again"' "$SSD" "$WORK"
    clean_ssd
done

# A writer asks for a file (the answer comes when the rank has joined), meanwhile another makes it: neither
# waits for the other.
job_ok 40 1@n0 bash -c '
    (exec 3<>"$0/both" && : >"$1/both.open") &
    sleep 0.02
    exec 4>"$0/both"
    until [ -e "$1/both.open" ]; do sleep 0.1; done
    exec 4>&-
    wait' "$SSD" "$WORK" -- 1@n1 true

# A child of a child has inherited the file, and ends when the first writer is gone: who waits for that end holds the file, too.
job_ok 40 1@n0 bash -c 'echo v1 >"$0/inherited"
    bash -c "exec 3>>$0/inherited; (sleep 2; sleep 0.1; echo late >&3) & echo early >&3; exit 0"
    until [ "$(grep -c . "$0/inherited")" = 3 ]; do sleep 0.1; done' "$SSD" -- 1@n1 true
clean_ssd

# What is written after the member has left stays local, and ends.
job_ok 40 1@n0 "$PROGS/late_write" "$SSD/late" -- 1@n1 true
grep -q 'late_write is over' "$ERR" || fail "the process did not get to its end"
