"""producer.py DIR: files written the ways Python programs write them."""
import os
import pathlib
import shutil
import subprocess
import sys

top = pathlib.Path(sys.argv[1])
sub = top / "results" / "run 1"
os.makedirs(sub, exist_ok=True)

with open(top / "text", "w", encoding="utf-8") as out:
    for i in range(10000):
        out.write(f"line {i} \u00e9\n")
with open(top / "binary", "wb") as out:
    out.write(bytes(range(256)) * 4096)
(sub / "pathlib").write_text("path\n")
shutil.copy(top / "binary", sub / "copied")
with open(top / "mapped", "w+b") as out:
    out.truncate(1 << 20)
    out.seek((1 << 20) - 4)
    out.write(b"tail")
temporary = sub / "config.tmp"
temporary.write_text("key = value\n")
os.replace(temporary, sub / "config")
subprocess.run(["sh", "-c", 'echo from a child > "$1"', "_", str(top / "child")], check=True)
fd = os.open(top / "raw", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
os.write(fd, b"raw")
os.close(fd)
