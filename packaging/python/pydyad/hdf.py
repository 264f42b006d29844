"""DyadFile: an h5py.File that is consumed before it is opened, or produced after it is closed. Needs h5py."""

from pathlib import Path
from typing import Any, Optional

import h5py  # type: ignore[import]
from dyad import _library

from .bindings import Dyad


class DyadFile(h5py.File):  # type: ignore[misc]
    """h5py.File(fname, mode), or of `file`, a file object, if there is one."""

    def __init__(
        self, fname: Any, mode: str, file: Any = None, dyad_ctx: Optional[Dyad] = None, metadata_wrapper: Any = None
    ) -> None:
        if dyad_ctx is None:
            raise NameError("'dyad_ctx' argument not provided to pydyad.hdf.File constructor")
        self.fname = Path(fname).expanduser().resolve()
        self.m = mode
        self.dyad_ctx = dyad_ctx
        if mode == "r" and dyad_ctx.cons_path in self.fname.parents:
            dyad_ctx.consume(self.fname)
        super().__init__(file or fname, mode)

    def close(self) -> None:
        """Close it, and publish what was written, once."""
        was_open = bool(self)
        super().close()
        if was_open and self.m in ("w", "r+") and self.dyad_ctx.prod_path in self.fname.parents:
            if not _library.wrapper_is_here():
                self.dyad_ctx.produce(self.fname)
