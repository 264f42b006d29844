#!/bin/bash
# Two nodes are cut off from each other, and each goes on to ask for files of the other all the time. So it asks also when the
# kernel is about to give up the other's hardware address, and such a connection fails at once: that is no proof that nobody is
# there. When the link is back they find each other.
. "$(dirname "$0")/../cluster/lib.sh"
[ "$PYTHON" ] || skip "needs python3"
cluster_up 2
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=60 DYAD_PEER_TIMEOUT=1 DYAD_TIMEOUT=0.3 DYAD_INLINE_MAX=0)
cat >"$WORK/rank.py" <<'END'
import os, threading, time
W, SSD, me = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"])

def wait_for(name):
    while not os.path.exists(f"{W}/{name}"):
        time.sleep(0.01)

def made(name):
    open(f"{W}/{name}.{me}", "x").close()

def read(name):
    with open(f"{SSD}/{name}") as f:
        return f.read()

def read_in_the_end(name): # on a machine that stalls for DYAD_TIMEOUT a read ends in ETIMEDOUT, as it should
    while True:
        try:
            return read(name)
        except TimeoutError:
            pass

def reads_all_the_time(first):
    i = first
    while not os.path.exists(f"{W}/go.healed"):
        try:
            read(f"f.{1 - me}.{i % 40}")
        except OSError:
            pass
        i += 1

for i in range(41):
    with open(f"{SSD}/f.{me}.{i}", "w") as f:
        f.write("what it has")
made("written")
wait_for(f"written.{1 - me}")
assert read_in_the_end(f"f.{1 - me}.40") == "what it has"
made("read")
wait_for("go.cut")
threads = [threading.Thread(target=reads_all_the_time, args=(10 * t,)) for t in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i in range(40):
    assert read_in_the_end(f"f.{1 - me}.{i}") == "what it has"
END
job_begin 100 2@n0,n1 "$PYTHON" "$WORK/rank.py"
until_true 20 "both have read" sh -c '[ -e "$1/read.0" ] && [ -e "$1/read.1" ]' _ "$WORK"
"$CLUSTER_SH" cut n0
: >"$WORK/go.cut"
# both_last WHAT: what each rank said last of the other one. (A machine that stalls can make them lose each other before the cut.)
both_last() { [ "$(sed -n "s/.* rank \([01]\)\]: info: rank . on node .. is \(gone\|back\).*/\1 \2/p" "$LOG" | tac | sort -u -k1,1 | grep -c "$1")" = 2 ]; }
until_true 30 "both go on without the other" both_last gone
sleep 16 # five times as long as the kernel looks for a hardware address
! grep 'nobody listens' "$LOG" || fail "who is beyond a cut is taken for one that has ended"
"$CLUSTER_SH" heal n0
until_true 30 "they find each other" both_last back
: >"$WORK/go.healed"
job_end_ok 60
