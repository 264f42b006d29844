"""consumer.py DIR: reads what producer.py writes."""
import concurrent.futures
import mmap
import os
import pathlib
import subprocess
import sys

top = pathlib.Path(sys.argv[1])
sub = top / "results" / "run 1"


def text():
    with open(top / "text", encoding="utf-8") as lines:
        for i, line in enumerate(lines):
            assert line == f"line {i} \u00e9\n", line
        assert i == 9999, i


def mapped():
    with open(top / "mapped", "rb") as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            assert len(memory) == 1 << 20 and memory[-4:] == b"tail" and memory[0] == 0


def binary():
    assert (sub / "copied").read_bytes() == bytes(range(256)) * 4096
    assert (top / "binary").read_bytes() == bytes(range(256)) * 4096


def small():
    assert (sub / "pathlib").read_text() == "path\n"
    assert (sub / "config").read_text() == "key = value\n"
    assert open(top / "raw", "rb").read() == b"raw"
    assert os.stat(top / "raw").st_mode & 0o777 == 0o600
    assert not os.path.exists(sub / "config.tmp")


def child():
    seen = subprocess.run(["cat", str(top / "child")], check=True, stdout=subprocess.PIPE).stdout
    assert seen == b"from a child\n", seen


with concurrent.futures.ThreadPoolExecutor() as pool:
    for task in [pool.submit(f) for f in (child, small, binary, mapped, text)]:
        task.result()
print("python consumer: all right")
