#!/bin/bash
# A file that nobody will write: ENOENT and a message once the job is quiescent, ETIMEDOUT under
# DYAD_TIMEOUT, and a word to whoever waits for long.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
X=$PROGS/xfer
ENOENT=2 ETIMEDOUT=110

# One rank waits, the other is at exit.
begin=$SECONDS
job_ok 40 1@n0 true -- 1@n1 "$X" read -d "$SSD" -p missing -E $ENOENT
say "ENOENT after $((SECONDS - begin)) s"
grep -q 'missing\.000000' "$LOG" "$ERR" || fail "no message names the file"

# All ranks wait, each for what another would have written after.
: >"$LOG"
job_ok 40 4@n0,n1 "$X" read -d "$SSD" -p 'missing%r' -E $ENOENT

# A child waits and its shell waits for the child.
job_ok 40 2@n0,n1 sh -c '"$0" read -d "$1" -p gone -E 2; exit $?' "$X" "$SSD"

# Not so if somebody is still at work.
begin=$SECONDS
JOB_ENV+=(DYAD_TIMEOUT=2)
job_ok 40 1@n0 sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$WORK/over" -- \
    1@n1 sh -c '"$0" read -d "$1" -p late -E "$2"; status=$?; : >"$3"; exit $status' "$X" "$SSD" $ETIMEDOUT "$WORK/over"
took=$((SECONDS - begin))
[ $took -ge 2 ] && [ $took -lt 15 ] || fail "DYAD_TIMEOUT=2 ended the wait after $took s"
unset 'JOB_ENV[-1]'

# Who waits longer than 10 s says so, and still gets the file.
: >"$LOG"
job_ok 60 1@n0 sh -c 'sleep 13; exec "$0" write -d "$1" -p slow' "$X" "$SSD" -- 1@n1 "$X" read -d "$SSD" -p slow
grep -i 'still waiting' "$LOG" "$ERR" | grep -q 'slow\.000000' || fail "no word of waiting within 13 s"
same_sums 1 n0 n1
