"""dyad.open(): as open(), with what dyad does before it and after it."""

import builtins
import io
import os
from typing import IO, Any, Callable, Optional, Union

from . import _calls, _library
from ._errors import NotManagedError, NotPublishedError

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class _Published(io.FileIO):
    """The lowest layer of a file that is published when it is closed, by the process that has opened it."""

    def __init__(self, file: Any, mode: str, path: bytes, opener: Optional[Callable[[Any, int], int]]) -> None:
        self._publish = False
        self._path = path
        super().__init__(file, mode, opener=opener)
        self._pid = os.getpid()
        self._publish = True

    def write(self, data: Any) -> Optional[int]:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            self._publish = False  # the file is not complete
            raise

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._publish and self._pid == os.getpid():
            try:
                _calls.produce(self._path)
            except NotManagedError:
                pass


def open(  # pylint: disable=redefined-builtin
    file: Union[Path, int],
    mode: str = "r",
    buffering: int = -1,
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
    closefd: bool = True,
    opener: Optional[Callable[[Any, int], int]] = None,
    *,
    timeout: Optional[float] = None,
) -> IO[Any]:
    """Open a file as the built-in open() does; the parameters are the same.

    For reading ("r", "r+") it waits until the file is published and here: DYAD_TIMEOUT at most, or `timeout` seconds
    (0: NotPublishedError at once; negative: no limit). "a" fetches the file if it is published, and does not wait. What is
    open for writing is published when it is closed, unless a write has failed. A path that is not managed, and a descriptor,
    is only opened.

    With the preloaded wrapper in the process the wrapper publishes, at the last close on the node, and only it does.
    """
    if isinstance(file, int):
        return builtins.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    path = os.path.abspath(os.fsencode(file))
    writes = any(c in mode for c in "wax+")
    if "r" in mode:
        try:
            _calls.consume(path, timeout)
        except NotManagedError:
            pass
    elif "a" in mode:
        try:
            _calls.consume(path, 0)
        except (NotManagedError, NotPublishedError):
            pass
    elif writes:
        _calls.join()
    if not writes or _library.wrapper_is_here():
        return builtins.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    return _open_published(file, mode, buffering, encoding, errors, newline, closefd, opener, path)


def _open_published(
    file: Path,
    mode: str,
    buffering: int,
    encoding: Optional[str],
    errors: Optional[str],
    newline: Optional[str],
    closefd: bool,
    opener: Optional[Callable[[Any, int], int]],
    path: bytes,
) -> IO[Any]:
    """What open() puts together, over a _Published."""
    binary = "b" in mode
    if len(set(mode)) != len(mode) or set(mode) - set("rwxabt+") or sum(c in mode for c in "rwxa") != 1 or (binary and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode takes no encoding, errors or newline argument")
    if not closefd:
        raise ValueError("cannot use closefd=False with a file name")
    if buffering == 0 and not binary:
        raise ValueError("can't have unbuffered text I/O")
    raw = _Published(file, "".join(c for c in mode if c not in "bt"), path, opener)
    layer: Any = raw
    try:
        if buffering == 0:
            return raw
        lines = buffering == 1 and not binary
        size = buffering if buffering > 1 else max(io.DEFAULT_BUFFER_SIZE, os.fstat(raw.fileno()).st_blksize)
        layer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, size)
        if not binary:
            layer = io.TextIOWrapper(layer, encoding, errors, newline, lines)
            layer.mode = mode
        return layer
    except BaseException:
        raw._publish = False  # pylint: disable=protected-access
        layer.close()
        raise
