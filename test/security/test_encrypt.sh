#!/bin/bash
# Who listens between two nodes sees nothing of names and bytes (DYAD_ENCRYPT=1), in files that come with the look-up, are
# fetched, or are pieces of several nodes. Without it he sees both: so the test can see what it looks for.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
need tcpdump "${PYTHON:-python3}"
cluster_up 2

env=("${JOB_ENV[@]}" "SSD=$SSD" DYAD_TIMEOUT=10)

# What is looked for is on no command line, which the launcher sends, too.
cat >"$WORK/job.py" <<'EOT'
import os
ssd, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
secret = lambda word: "-".join(word.upper()[::-1]) # "abc" is C-B-A

def exchange(what, size):
    text = secret("bytes of " + what).encode()
    with open(f"{ssd}/{secret('name')}.{what}.{me}", "wb") as f:
        f.write(text * (size // len(text)) + b"%d" % me)
    with open(f"{ssd}/{secret('name')}.{what}.{1 - me}", "rb") as f:
        assert f.read() == text * (size // len(text)) + b"%d" % (1 - me)

exchange("small", 1000)
exchange("large", 8 << 20)
text = secret("pieces").encode()
if me == 1:
    open(f"{ssd}/begun").close()
with os.fdopen(os.open(f"{ssd}/{secret('name')}.joint", os.O_RDWR | os.O_CREAT, 0o666), "wb") as f:
    open(f"{ssd}/begun", "w").close() if me == 0 else None
    f.seek(me * 100 * len(text))
    f.write(text * 100)
    f.flush()
    open(f"{ssd}/wrote.{me}", "w").close()
    open(f"{ssd}/wrote.{1 - me}").close()
with open(f"{ssd}/{secret('name')}.joint", "rb") as f:
    assert f.read() == text * 200
EOT

# begin ENV...: the job, listened to on node 1. end: it has ended well, and nobody listens any more.
begin() {
    clean_ssd
    rm -f "$WORK/heard"
    node_exec n1 tcpdump -Z root -i any -s 0 -B 65536 -U -w "$WORK/heard" tcp 2>"$WORK/tcpdump.err" &
    LISTENER=$!
    BACKGROUND+=("$LISTENER")
    until_true 20 "tcpdump listens" grep -q 'listening on' "$WORK/tcpdump.err"
    JOB_ENV=("${env[@]}" "$@")
    job_begin 60 2@n0,n1 "$PYTHON" "$WORK/job.py"
}
end() {
    local status=0
    job_wait || status=$?
    [ $status -eq 0 ] || fail "the job has ended with status $status"
    until_true 20 "the listener has heard it" "$@"
    node_exec n1 pkill -TERM -x tcpdump
    wait "$LISTENER" || true
    nothing_left
    say "$(tr '\n' ' ' <"$WORK/tcpdump.err")"
}

heard() {
    local word
    for word; do LC_ALL=C grep -qaF -e "$word" "$WORK/heard" || return 1; done
}
heard_bytes() { [ "$(stat -c %s "$WORK/heard")" -gt "$1" ]; }

words=(E-M-A-N L-L-A-M-S E-G-R-A-L S-E-C-E-I-P)
begin DYAD_ENCRYPT=0
end heard "${words[@]}"
begin DYAD_ENCRYPT=1
end heard_bytes $((16 << 20))
for word in "${words[@]}"; do ! heard "$word" || fail "$word is heard"; done
heard dyadDOOR || fail "nothing was heard of the connections"
# It is noise: it can be made no smaller.
packed=$(gzip -1 <"$WORK/heard" | wc -c)
[ $((packed * 100)) -gt $(($(stat -c %s "$WORK/heard") * 90)) ] || fail "what was heard has a pattern: $packed bytes when packed"

# One of the ranks does not.
clean_ssd
JOB_ENV=("${env[@]}")
JOB_ENV+=(DYAD_TIMEOUT=3)
! job 60 2@n0,n1 bash -c 'DYAD_ENCRYPT=$PMIX_RANK exec "$@"' - "$PYTHON" "$WORK/job.py" ||
    fail "a rank that encrypts and one that does not have exchanged files"
grep -q 'DYAD_ENCRYPT=[01], .* has [01]: they cannot share files' "$LOG" || fail "nobody says why"
# It cannot be had with an open port.
JOB_ENV+=(DYAD_ENCRYPT=1 DYAD_PORT_GUARD=0)
! job 60 1@n0 "$PYTHON" -c 'import sys; open(sys.argv[1]).read()' "$SSD/x" || fail "what was never written was read"
grep -q 'DYAD_ENCRYPT=1 needs DYAD_PORT_GUARD=1' "$LOG" || fail "nobody says that the port has to be guarded"
