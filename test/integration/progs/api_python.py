"""api_python.py produce|consume DIR SHARED: the packages dyad and pydyad, on two nodes."""
import asyncio
import errno
import os
import pathlib
import signal
import sys
import threading
import time

import dyad
from pydyad import Dyad, dyad_open
from pydyad.bindings import DTLCommMode, DTLMode

role, top, shared = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


def raises(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind}")


def produce():
    with dyad.open(top / "text", "w", encoding="utf-8") as out:
        assert out.mode == "w"
        out.write("caf\u00e9\n" * 1000)
    assert dyad.lookup(top / "text").size == 6000
    assert dyad.lookup(top / "text").version > 0
    with dyad.open(os.fsencode(top / "binary"), "wb", buffering=0) as out:
        out.write(bytes(range(256)))
    raises(FileExistsError, dyad.open, top / "binary", "x")
    with open(top / "by hand", "w") as out:
        out.write("by hand")
    dyad.produce(str(top / "by hand"))
    with dyad_open(str(top / "pydyad"), mode="w") as out:
        out.write("of pydyad")
    # DLIO's loader makes what get_metadata() does not know.
    io = dlio()
    assert io.get_metadata(fname=str(top / "no such"), should_wait=False, raw=True) is None
    with dyad_open(str(top / "sample"), "wb", dyad_ctx=io) as out:
        out.write(b"sample")
    # What the other node appends is here.
    told("appended is ready")
    with dyad.open(top / "text", encoding="utf-8") as source:
        assert source.read() == "caf\u00e9\n" * 1000 + "appended\n"
    dyad.withdraw(top / "binary")
    raises(FileNotFoundError, dyad.lookup, top / "binary")
    for go in ("ctrl-c", "thread", "async"):
        told("waits for " + go)
        with dyad.open(top / go, "w") as out:
            out.write(go)


def dlio():
    io = Dyad()
    io.init(debug=False, check=False, shared_storage=False, reinit=False, async_publish=True, fsync_write=False,
            key_depth=3, service_mux=1, key_bins=1024, kvs_namespace=os.getenv("DYAD_KVS_NAMESPACE"),
            prod_managed_path=str(top), cons_managed_path=str(top), dtl_mode=DTLMode.DYAD_DTL_MARGO,
            dtl_comm_mode=DTLCommMode.DYAD_COMM_RECV)
    return io


# Past dyad: who waits in it for the other node ends as soon as the other waits in it, too.
def tell(name):
    (shared / name).touch()


def told(name):
    while not (shared / name).exists():
        time.sleep(0.02)


def consume():
    with dyad.open(top / "text", encoding="utf-8", timeout=30) as source:
        assert source.read() == "caf\u00e9\n" * 1000
    with dyad.open(top / "binary", "rb") as source:
        assert source.read() == bytes(range(256))
    dyad.prefetch(top / "by hand")
    dyad.consume(os.fsencode(top / "by hand"))
    assert (top / "by hand").read_text() == "by hand"
    with dyad_open(top / "pydyad", "r") as source:
        assert source.read() == "of pydyad"
    dyad.consume(top / "sample")
    io = dlio()
    known = io.get_metadata(fname=str(top / "sample"), should_wait=False, raw=True)
    assert known and known.contents.owner_rank == 0
    with dyad_open(str(top / "sample"), "rb", dyad_ctx=io, metadata_wrapper=known) as source:
        assert source.read() == b"sample"
    io.free_metadata(known)
    io.finalize()

    error = raises(BlockingIOError, dyad.consume, top / "ctrl-c", timeout=0)
    assert isinstance(error, dyad.NotPublishedError) and error.errno == errno.EAGAIN and error.filename == str(top / "ctrl-c")
    assert isinstance(raises(TimeoutError, dyad.consume, top / "ctrl-c", timeout=0.2), dyad.Error)
    raises(dyad.NotManagedError, dyad.consume, "/etc/passwd")
    raises(ValueError, dyad.consume, "a\0b")
    with dyad.open("/etc/passwd") as source:
        assert source.read()
    with dyad.open(top / "text", "a", encoding="utf-8") as out:
        out.write("appended\n")
    assert dyad.lookup(top / "text").size == 6009
    tell("appended is ready")

    # Ctrl-C ends a wait that nothing else ends: what this waits for is only made later.
    def interrupt():
        main = threading.main_thread().ident
        while sys._current_frames()[main].f_code.co_name != "interruptible":
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    raises(KeyboardInterrupt, dyad.consume, top / "ctrl-c", timeout=-1)
    tell("waits for ctrl-c")
    dyad.consume(top / "ctrl-c")

    # Only a thread that runs while another one waits can have made what ends the wait.
    waiter = threading.Thread(target=dyad.consume, args=(top / "thread",), kwargs={"timeout": -1})
    waiter.start()
    tell("waits for thread")
    waiter.join()
    assert (top / "thread").read_text() == "thread"

    async def many():
        waits = [asyncio.ensure_future(dyad.consume_async(top / "async", timeout=-1)) for _ in range(10)]
        cancelled = asyncio.ensure_future(dyad.consume_async(top / "async", timeout=-1))
        await asyncio.sleep(0)
        cancelled.cancel()
        tell("waits for async")
        await asyncio.gather(*waits)
        assert cancelled.cancelled() or (await asyncio.gather(cancelled, return_exceptions=True)) and cancelled.cancelled()
        try:
            await dyad.consume_async("/etc/passwd")
        except dyad.NotManagedError:
            return
        raise AssertionError("no error")

    asyncio.run(many())


with dyad.session():
    {"produce": produce, "consume": consume}[role]()
    os.write(1, f"{role} done\n".encode())  # at once: both ranks write to one pipe
