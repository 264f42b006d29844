"""Another user of the node takes the names of the members' sockets of a user's job.

squat_names.py FILE: waits for a member of rank 0, takes the names of ranks 1 to 8 of its node, and makes names of junk;
writes FILE.squatted; takes rank 0's as soon as nobody has it, and writes FILE.again. Ends at the end of its input.
"""
import os
import re
import select
import socket
import sys

NAME = re.compile(r"@(dyad/0/[0-9a-f]{32}/)(\d+)$", re.M)
held = {}


def take(name, listens=True):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.bind("\0" + name)
    except OSError:
        s.close()
        return False
    if listens:
        s.listen(8)
    held[name] = s
    return True


def members():
    with open("/proc/net/unix", errors="replace") as f:
        return {m[1] for m in NAME.finditer(f.read()) if m[2] == "0"}


def ended():
    return bool(select.select([sys.stdin], [], [], 0.0005)[0])


def note(what):
    with open(f"{sys.argv[1]}.new", "w") as f:
        f.write("\n".join(held))
    os.rename(f"{sys.argv[1]}.new", f"{sys.argv[1]}.{what}")


prefixes = set()
while not prefixes and not ended():
    prefixes = members()
for prefix in prefixes:
    for rank in range(1, 9):
        take(prefix + str(rank), rank % 2 == 1)
        take(f"{prefix}{rank}/0123456789abcde{rank}", rank % 2 == 0)
note("squatted")
while not ended():
    for prefix in prefixes:
        if prefix + "0" not in held and take(prefix + "0"):
            note("again")
