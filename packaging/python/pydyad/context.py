"""dyad_open(): a file that is consumed before it is opened, or produced after it is closed."""

import builtins
import contextlib
from pathlib import Path
from typing import IO, Any, Iterator, Optional

from dyad import _library

from .bindings import Dyad

DYAD_IO: Optional[Dyad] = None


@contextlib.contextmanager
def dyad_open(
    *args: Any, dyad_ctx: Optional[Dyad] = None, metadata_wrapper: Any = None, register_dyad_ctx: bool = False, **kwargs: Any
) -> Iterator[IO[Any]]:
    """open(), which needs a mode. Without dyad_ctx the one that was registered is used, or made by init_env()."""
    global DYAD_IO
    if dyad_ctx is None:
        if DYAD_IO is None:
            made = Dyad()
            made.init_env()
            DYAD_IO = made
        dyad_ctx = DYAD_IO
    elif register_dyad_ctx:
        DYAD_IO = dyad_ctx
    if "mode" not in kwargs and len(args) < 2:
        raise NameError("'mode' argument not provided to dyad_open")
    mode = kwargs["mode"] if "mode" in kwargs else args[1]
    name = Path(args[0]).expanduser().resolve()
    if mode in ("r", "rb", "rt") and dyad_ctx.cons_path in name.parents:
        dyad_ctx.consume(name)
    file = builtins.open(*args, **kwargs)
    try:
        yield file
    finally:
        file.close()
        # The preloaded wrapper has published it at the close.
        if mode in ("w", "wb", "wt") and dyad_ctx.prod_path in name.parents and not _library.wrapper_is_here():
            dyad_ctx.produce(name)
