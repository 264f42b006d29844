"""suite.py - what Python's own modules do with files, in the working directory"""
import bz2
import dbm.dumb
import filecmp
import fileinput
import gzip
import json
import lzma
import mmap
import os
import pathlib
import pickle
import py_compile
import shelve
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile

here = pathlib.Path(".")
tree = here / "tree"
for i in range(30):
    path = tree / ("dir%d" % (i % 5)) / ("file%d" % i)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text %d\n" % i * (i * 50))

# shutil
shutil.copytree(tree, "copied")
shutil.copy2("tree/dir1/file1", "copy2")
shutil.copyfile("tree/dir2/file2", "copyfile")
shutil.move("copied/dir0", "moved")
shutil.rmtree("copied/dir1")
for kind in ("tar", "gztar", "bztar", "xztar", "zip"):
    name = shutil.make_archive("archive_" + kind, kind, "tree")
    shutil.unpack_archive(name, "unpacked_" + kind)
    match = filecmp.dircmp("tree", "unpacked_" + kind)
    print(kind, match.left_only, match.right_only, match.diff_files, sorted(match.common))

# zipfile and tarfile, with changes in place
with zipfile.ZipFile("own.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for path in sorted(tree.rglob("file*")):
        z.write(path)
with zipfile.ZipFile("own.zip", "a") as z:
    z.writestr("added", "more")
with zipfile.ZipFile("own.zip") as z:
    print(z.testzip(), len(z.namelist()), z.read("added"))
    z.extractall("from_zip")
with tarfile.open("own.tar", "w") as t:
    t.add("tree")
with tarfile.open("own.tar", "a") as t:
    t.add("copy2")
with tarfile.open("own.tar") as t:
    print(len(t.getmembers()))
    t.extractall("from_tar")

# tempfile
with tempfile.TemporaryDirectory() as d:
    (pathlib.Path(d) / "inside").write_text("x")
    print(os.path.dirname(d) == os.environ["TMPDIR"])
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f:
    f.write("named")
os.replace(f.name, "renamed")
with tempfile.TemporaryFile() as f:
    f.write(b"anonymous" * 1000)
    f.seek(0)
    print(len(f.read()))
with tempfile.SpooledTemporaryFile(max_size=100) as f:
    f.write(b"x" * 1000)
    f.seek(0)
    print(len(f.read()))

# sqlite3
db = sqlite3.connect("py.db")
db.execute("CREATE TABLE t(n)")
for mode in ("WAL", "DELETE"):
    print(db.execute("PRAGMA journal_mode=" + mode).fetchone())
    with db:
        db.executemany("INSERT INTO t VALUES(?)", ((i,) for i in range(5000)))
    try:
        with db:
            db.execute("DELETE FROM t")
            raise RuntimeError
    except RuntimeError:
        pass
    print(db.execute("SELECT count(*), sum(n) FROM t").fetchone(), db.execute("PRAGMA integrity_check").fetchone())
other = sqlite3.connect("py.db", timeout=0)
db.execute("BEGIN EXCLUSIVE")
try:
    other.execute("INSERT INTO t VALUES(1)")
except sqlite3.OperationalError as error:
    print(error)
db.rollback()
with sqlite3.connect("backup.db") as backup:
    db.backup(backup)
print(backup.execute("SELECT count(*) FROM t").fetchone())
backup.close(), other.close(), db.close()

# compressed streams, shelves, in-place edits, mappings
for module, name in ((gzip, "g.gz"), (bz2, "b.bz2"), (lzma, "l.xz")):
    with module.open(name, "wt") as f:
        f.write("compressed\n" * 1000)
    with module.open(name, "at") as f:
        f.write("appended\n")
    with module.open(name, "rt") as f:
        print(name, sum(1 for _ in f))
    os.remove(name)
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    shelf["key"] = list(range(100))
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    print(sum(shelf["key"]))
with fileinput.input("copyfile", inplace=True) as lines:
    for line in lines:
        print(line.upper(), end="")
with open("mapped", "w+b") as f:
    f.truncate(10000)
    with mmap.mmap(f.fileno(), 0) as m:
        m[5000:5004] = b"here"
        m.flush()
print(pathlib.Path("mapped").read_bytes().count(b"here"))
with open("both", "x+") as f:
    f.write("0123456789")
    f.seek(3)
    f.write("abc")
    f.seek(0)
    print(f.read())
try:
    open("both", "x")
except FileExistsError as error:
    print(error.errno)
pickle.dump({"a": 1}, open("pickle", "wb"))
json.dump({"a": [1, 2]}, open("json", "w"))
pathlib.Path("mod.py").write_text("VALUE = 42\n")
py_compile.compile("mod.py")
print(subprocess.run([sys.executable, "-c", "import mod; print(mod.VALUE)"], capture_output=True, text=True).stdout)

# look-ups and names
print(os.path.exists("tree/none"), os.path.isfile("copy2"), os.path.isdir("tree"), os.path.getsize("copy2"))
print(sorted(str(p) for p in here.glob("tree/*/file1*")), len(list(os.walk("."))) > 10)
os.chmod("copy2", 0o400)
print(oct(stat.S_IMODE(os.stat("copy2").st_mode)))
os.utime("copyfile", (1, 2))
print(os.stat("copyfile").st_mtime)
os.link("copyfile", "linked")
os.rename("linked", "linked2")
print(os.stat("linked2").st_nlink, os.path.samefile("linked2", "copyfile"))
os.makedirs("a/b/c")
os.removedirs("a/b/c")
print(os.path.exists("a"))
dirfd = os.open("tree", os.O_RDONLY | os.O_DIRECTORY)
fd = os.open("by_dirfd", os.O_WRONLY | os.O_CREAT, 0o640, dir_fd=dirfd)
os.write(fd, b"by dirfd")
os.close(fd), os.close(dirfd)
print(pathlib.Path("tree/by_dirfd").read_text())
os.truncate("both", 4)
print(pathlib.Path("both").read_text())
for name in ("missing", "tree", "copy2/below"):
    try:
        open(name)
    except OSError as error:
        print(name, error.errno)
