"""Files of a workflow, shared through node-local storage: libdyad for Python.

    import dyad

    with dyad.session("/tmp/ssd"):
        with dyad.open("/tmp/ssd/result", "w") as out:
            out.write("42\\n")           # published by the close
        with dyad.open("/tmp/ssd/input", timeout=60) as source:
            print(source.read())         # waits until somebody has published it

Outside a session the first call joins, with the DYAD_* variables of the environment, until the process exits. Errors are
dyad.Error, which is an OSError, and of the class that open() would raise: FileNotFoundError, TimeoutError, ...
docs/python.md of dyad-p2p tells the rest.
"""

from ._calls import (
    Metadata, consume, consume_async, laminate, lookup, prefetch, produce, session, withdraw,
)  # fmt: skip
from ._errors import (
    BusyError, Error, NoSessionError, NotFoundError, NotManagedError, NotPublishedError, PermissionDeniedError, TimedOutError,
)  # fmt: skip
from ._files import open  # pylint: disable=redefined-builtin
from ._library import VERSION as __version__

__all__ = [
    "BusyError", "Error", "Metadata", "NoSessionError", "NotFoundError", "NotManagedError", "NotPublishedError",
    "PermissionDeniedError", "TimedOutError", "__version__", "consume", "consume_async", "laminate", "lookup", "open",
    "prefetch", "produce", "session", "withdraw",
]  # fmt: skip
