"""What a call of libdyad raises: each error is an OSError, too, of the class that its errno has."""

import errno
import os
from typing import Dict, Optional, Tuple, Type

__all__ = [
    "BusyError", "Error", "NotFoundError", "NotManagedError", "NotPublishedError", "NoSessionError",
    "PermissionDeniedError", "TimedOutError",
]


class Error(OSError):
    """A call of libdyad failed. `code` is its result (DYAD_E_*), `errno` and `filename` are an OSError's."""

    code: int = 0


class NotFoundError(Error, FileNotFoundError):
    """The file is not published, and no process is left that could publish it."""


class NotPublishedError(Error, BlockingIOError):
    """The file is not published yet, and the call was not to wait."""


class TimedOutError(Error, TimeoutError):
    """The file was not published within the time allowed."""


class PermissionDeniedError(Error, PermissionError):
    """The local storage does not permit it."""


class NotManagedError(Error, ValueError):
    """The path is not below a managed directory."""


class NoSessionError(Error, ConnectionError):
    """The process has not joined a session, or could not join one."""


class BusyError(Error):
    """A process of this node has the file open for writing."""


NOT_INIT = -1
INVALID = -2
NOT_MANAGED = -3
AGAIN = -5
IO = -12

# DYAD_E_*: the class and the errno. dyad.h has the numbers.
_TABLE: Dict[int, Tuple[Type[Error], int]] = {
    NOT_INIT: (NoSessionError, errno.ENOTCONN),
    INVALID: (Error, errno.EINVAL),
    NOT_MANAGED: (NotManagedError, errno.EINVAL),
    -4: (NotFoundError, errno.ENOENT),
    AGAIN: (NotPublishedError, errno.EAGAIN),
    -6: (TimedOutError, errno.ETIMEDOUT),
    -7: (Error, errno.EHOSTUNREACH),
    -8: (NoSessionError, errno.ENOTCONN),
    -9: (Error, errno.ENOSPC),
    -10: (Error, errno.ENOMEM),
    -11: (PermissionDeniedError, errno.EACCES),
    IO: (Error, errno.EIO),
    -13: (BusyError, errno.EBUSY),
}


def error_of(code: int, text: str, error: int, path: Optional[bytes]) -> Error:
    """The exception of a result. `error` is the errno that the call left: the library says DYAD_E_IO of each that has
    no code of its own, and then it tells more."""
    kind, number = _TABLE.get(code, (Error, errno.EIO))
    if code == IO and error:
        number = error
        text = f"{text} ({os.strerror(error)})"
    raised = kind(number, text) if path is None else kind(number, text, os.fsdecode(path))
    raised.code = code
    return raised
