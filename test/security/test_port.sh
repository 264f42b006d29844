#!/bin/bash
# Another user of the node talks to the ports of UCX, which takes a PUT to any address from whoever connects: it has nothing of
# that, nor has a job harm of connections that say nothing.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
cluster_up 2
chmod go+rx "$WORK"
install -m 644 "$(dirname "$0")/attack_port.py" "$WORK/attack_port.py"
mkfifo "$WORK/on"
cat >"$WORK/victim.py" <<'EOT'
import ctypes, os, sys, time
SSD, W, me = os.environ["SSD"], os.environ["W"], int(os.environ["PMIX_RANK"])
kept = ctypes.create_string_buffer(b"mine all", 8)

def exchange(name):
    """Each has what the other has written."""
    with open(f"{SSD}/{name}.{me}", "w") as f:
        f.write(name * 1000)
    with open(f"{SSD}/{name}.{1 - me}") as f:
        assert f.read() == name * 1000

exchange("before")
with open(f"{W}/address.{me}.new", "w") as f:
    f.write(hex(ctypes.addressof(kept)))
os.rename(f"{W}/address.{me}.new", f"{W}/address.{me}")
k = 0
while True:
    exchange(f"meanwhile{k}")
    k += 1
    open(f"{SSD}/round.{me}.{k}", "w").write(str(os.path.exists(f"{W}/attacked")))
    if "True" in (open(f"{SSD}/round.{r}.{k}").read() for r in (0, 1)):
        break
exchange("after")
assert kept.raw == b"mine all", kept.raw
EOT
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=30)

# attack put|all: both ranks' ports, by another user of their node.
attack() {
    local node ports attackers=()
    rm -f "$WORK"/address.* "$WORK/attacked" "$WORK"/attack.?
    : >"$LOG"
    clean_ssd
    job_begin 100 2@n0,n1 "$PYTHON" "$WORK/victim.py"
    until_true 30 "the job begins" test -e "$WORK/address.0" -a -e "$WORK/address.1"
    for node in 0 1; do
        # Not those of the launcher, which are its own affair. A member's are in a descriptor table that ss does not look at.
        ports=$(node_exec "n$node" ss -H -ltnp | sed -n '/users:/!s/^[^ ]* *[0-9]* *[0-9]* *[^ ]*:\([0-9]*\) .*/\1/p' | tr '\n' ' ')
        [ -n "$ports" ] || fail "nobody listens on node $node"
        # shellcheck disable=SC2086
        node_exec "n$node" setpriv --reuid 61234 --regid 61234 --clear-groups \
            "$PYTHON" "$WORK/attack_port.py" "$1" "$(cat "$WORK/address.$node")" $ports <"$WORK/on" >"$WORK/attack.$node" 2>&1 &
        attackers+=($!)
    done
    exec 3>"$WORK/on"
    for node in 0 1; do
        until_true 60 "node $node is attacked" grep -q idle "$WORK/attack.$node"
        say "$(grep -v idle "$WORK/attack.$node" | tr '\n' ' ')"
    done
    : >"$WORK/attacked"
    job_wait && status=0 || status=$?
    exec 3>&-
    wait "${attackers[@]}"
}

# Other bytes than the process has written, or a member that UCX has ended.
is_harmed() { grep -q "AssertionError: b'ATTACKED'" "$ERR" || grep -q 'UCX has found a fault in itself' "$LOG"; }

# That it is an attack: without the guard it does harm.
JOB_ENV+=(DYAD_PORT_GUARD=0)
attack put
is_harmed || fail "the attack is none: status $status: $(cat "$ERR")"

unset 'JOB_ENV[-1]'
attack all
[ $status -eq 0 ] && ! is_harmed || fail "the job has ended with status $status: $(cat "$OUT" "$ERR" "$LOG")"
grep -q 'connection(s) refused that did not prove to be of this session' "$LOG" "$OUT" || fail "nobody says that strangers come"
! grep -h ' put open\|put closed b.[^'"'"']' "$WORK"/attack.* || fail "a port answers a stranger"
