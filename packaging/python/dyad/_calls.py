"""The functions of libdyad, with Python's arguments and exceptions."""

import asyncio
import atexit
import contextlib
import ctypes
import os
import signal
import threading
from typing import Any, Callable, Iterator, NamedTuple, Optional, Union

from . import _helpers
from ._errors import NOT_INIT, NoSessionError, error_of
from ._library import Params, RawMetadata, lib

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Metadata(NamedTuple):
    """What is known of a published file."""

    size: int
    """bytes"""
    mode: int
    """permission bits"""
    mtime_ns: int
    """modification time, nanoseconds since 1970"""
    owner_rank: int
    """the rank whose member serves it"""
    version: int
    """raised by each publish"""


def _encoded(path: Path) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


def _checked(path: Optional[bytes], function: Callable[..., int], *arguments: Any) -> None:
    ctypes.set_errno(0)
    code = function(*arguments)
    if code != 0:
        raise error_of(code, lib.dyad_strerror(code).decode(), ctypes.get_errno(), path)


# --- joining and leaving ---

_lock = threading.Lock()
_joined = False  # by join(); _leave() is its end


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def _init(params: Optional[Params]) -> None:
    _checked(None, lib.dyad_init_params, None if params is None else ctypes.byref(params))


def join(params: Optional[Params] = None) -> None:
    """Join the session, if this has not been done, for as long as the process lives: it leaves at its exit."""
    global _joined
    if _joined:
        return

    def init() -> None:
        global _joined
        with _lock:
            if not _joined:
                _init(params)
                _joined = True
                atexit.register(_leave)

    _helpers.interruptible(init)


def _leave() -> None:
    # No thread may be started any more, so Ctrl-C ends the process while it serves the others.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    lib.dyad_finalize()


def make_params(
    path: Optional[Path] = None,
    path_producer: Optional[Path] = None,
    path_consumer: Optional[Path] = None,
    kvs_namespace: Optional[str] = None,
    timeout: Optional[float] = None,
    key_depth: Optional[int] = None,
    key_bins: Optional[int] = None,
    replicas: Optional[int] = None,
) -> Params:
    """struct dyad_params; None: what the environment says."""

    def name(value: Optional[Path]) -> Optional[bytes]:
        return None if value is None else _encoded(value)

    def number(value: Any) -> Any:
        return -1 if value is None else value

    return Params(
        ctypes.sizeof(Params), name(path), name(path_producer), name(path_consumer), name(kvs_namespace),
        number(timeout), number(key_depth), number(key_bins), number(replicas),
    )  # fmt: skip


@contextlib.contextmanager
def session(
    path: Optional[Path] = None,
    *,
    path_producer: Optional[Path] = None,
    path_consumer: Optional[Path] = None,
    kvs_namespace: Optional[str] = None,
    timeout: Optional[float] = None,
    key_depth: Optional[int] = None,
    key_bins: Optional[int] = None,
    replicas: Optional[int] = None,
) -> Iterator[None]:
    """Be in the session while the block runs: dyad_init_params() and dyad_finalize().

    What is given goes before the DYAD_* variables. At the end of the last such block the process serves its files until the
    job's other processes are at their exit, or as DYAD_LINGER says; with the preloaded wrapper that is at its own exit.
    """
    params = make_params(path, path_producer, path_consumer, kvs_namespace, timeout, key_depth, key_bins, replicas)
    _helpers.interruptible(lambda: _init(params))
    try:
        yield
    finally:
        _helpers.interruptible(lambda: _checked(None, lib.dyad_finalize))


def _call(path: Path, function: Callable[..., int], *more: Any) -> None:
    """A function of a path. Who has not joined does so first, with what the environment says."""
    name = _encoded(path)
    try:
        _checked(name, function, name, *more)
        return
    except NoSessionError as error:
        if error.code != NOT_INIT:
            raise
    join()
    _checked(name, function, name, *more)


# --- verbs ---


def produce(path: Path) -> None:
    """Publish the complete file at `path`. With the preloaded wrapper its close has done so."""
    _call(path, lib.dyad_produce)


def _consume(path: Path, timeout: Optional[float]) -> None:
    if timeout is None:
        _call(path, lib.dyad_consume)
    else:
        _call(path, lib.dyad_consume_timeout, timeout)


def consume(path: Path, timeout: Optional[float] = None) -> None:
    """Wait until `path` is published and its bytes are here; then open it as usual.

    It waits for a publish DYAD_TIMEOUT at most, or `timeout` seconds (0: NotPublishedError at once; negative: no limit), and
    raises TimedOutError, a TimeoutError, then. Other threads run meanwhile, and Ctrl-C ends the wait.
    """
    _helpers.interruptible(lambda: _consume(path, timeout))


async def consume_async(path: Path, timeout: Optional[float] = None) -> None:
    """As consume(), without blocking the event loop. Any number of them can wait at one time."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[None]" = loop.create_future()

    def settle(error: Optional[BaseException]) -> None:
        if future.done():  # it was cancelled
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def done(_: Any, error: Optional[BaseException]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, error)

    _helpers.start(lambda: _consume(path, timeout), done)
    await future


def lookup(path: Path) -> Metadata:
    """What is known of a published file, without fetching it or waiting. NotFoundError if it is not published."""
    raw = RawMetadata()
    _call(path, lib.dyad_lookup, ctypes.byref(raw))
    return Metadata(raw.size, raw.mode, raw.mtime_sec * 10**9 + raw.mtime_nsec, raw.owner_rank, raw.version)


def withdraw(path: Path) -> None:
    """End the publication of `path`. The local file stays. NotFoundError if it was not published."""
    _call(path, lib.dyad_withdraw)


def prefetch(path: Path) -> None:
    """Let `path` be fetched in the background as soon as it is published. A hint, which returns at once."""
    _call(path, lib.dyad_prefetch)


def laminate(path: Path) -> None:
    """Seal `path`: take all permissions to write away, and publish that. BusyError if it is open for writing here."""
    _call(path, lib.dyad_laminate)
