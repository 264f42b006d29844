#!/bin/bash
# A man in the middle refuses the connections between two nodes for a while (he forges RSTs), though both ranks live: each
# takes the other for dead. They are not left so: when connections come through again they find each other.
. "$(dirname "$0")/../cluster/lib.sh"
[ "$PYTHON" ] || skip "needs python3"
cluster_up 2
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=3 DYAD_PEER_TIMEOUT=1 DYAD_INLINE_MAX=0)
cat >"$WORK/rank.py" <<'END'
import os, time
W, SSD, me = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"])

def wait_for(name):
    while not os.path.exists(f"{W}/{name}"):
        time.sleep(0.01)

def read(i):
    with open(f"{SSD}/f.{1 - me}.{i}") as f:
        assert f.read() == "what it has"

for i in range(3):
    with open(f"{SSD}/f.{me}.{i}", "w") as f:
        f.write("what it has")
open(f"{W}/written.{me}", "x").close()
wait_for(f"written.{1 - me}")
read(0)
open(f"{W}/read.{me}", "x").close()
wait_for("go.refused")
try:
    read(1)
    raise SystemExit("was read")
except OSError:
    pass
open(f"{W}/tried.{me}", "x").close()
wait_for("go.back")
read(1)
read(2)
END
cat >"$WORK/reset.py" <<'END'
import socket, struct

def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff

seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
nodes = {socket.inet_aton(f"10.77.0.{10 + i}") for i in range(2)}
while True:
    packet = seen.recv(2048)
    src, dst, tcp = packet[12:16], packet[16:20], packet[4 * (packet[0] & 15):]
    if packet[9] != socket.IPPROTO_TCP or {src, dst} != nodes or tcp[13] & 0x16 != 2: # a SYN
        continue
    ports, seq = struct.unpack("!HHI", tcp[:8])[:2], struct.unpack("!I", tcp[4:8])[0]
    rst = struct.pack("!HHIIBBHHH", ports[1], ports[0], 0, seq + 1 & 0xffffffff, 5 << 4, 0x14, 0, 0, 0)
    rst = rst[:16] + struct.pack("!H", checksum(dst + src + struct.pack("!HH", 6, 20) + rst)) + rst[18:]
    out.sendto(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, dst, src) + rst, (socket.inet_ntoa(src), 0))
END
# What each node has for the other one goes by the head, which drops it, or not.
"$CLUSTER_SH" exec head sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; for i in all br0; do echo 0 >/proc/sys/net/ipv4/conf/$i/send_redirects; done'
"$CLUSTER_SH" exec n0 ip route add 10.77.0.11 via 10.77.0.1
"$CLUSTER_SH" exec n1 ip route add 10.77.0.10 via 10.77.0.1
drop() { # add|del
    "$CLUSTER_SH" exec head ip rule "$1" from 10.77.0.10 to 10.77.0.11 iif br0 blackhole
    "$CLUSTER_SH" exec head ip rule "$1" from 10.77.0.11 to 10.77.0.10 iif br0 blackhole
}
# both_say WORDS: each rank has said so of the other one.
both_say() { [ "$(sed -n "s/.* rank \([01]\)\]: info: rank . on node .. is $1.*/\1/p" "$LOG" | sort -u | wc -l)" = 2 ]; }
job_begin 100 2@n0,n1 "$PYTHON" "$WORK/rank.py"
until_true 20 "both have read" sh -c '[ -e "$1/read.0" ] && [ -e "$1/read.1" ]' _ "$WORK"
drop add
"$CLUSTER_SH" exec head "$PYTHON" "$WORK/reset.py" 2>"$WORK/reset.err" &
resets=$!
: >"$WORK/go.refused"
until_true 30 "each takes the other for dead" both_say "gone: nobody listens"
# What waits for the other one ends all the same.
until_true 30 "both opens have failed" sh -c '[ -e "$1/tried.0" ] && [ -e "$1/tried.1" ]' _ "$WORK"
kill $resets
drop del
until_true 60 "they find each other" both_say back
: >"$WORK/go.back"
job_end_ok 60
