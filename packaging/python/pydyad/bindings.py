"""Dyad: the class of DYAD's own binding, over libdyad of dyad-p2p. docs/python.md lists what differs."""

import ctypes
import enum
import os
from pathlib import Path
from typing import Any, Optional, Union

import dyad
from dyad import _calls

_Name = Union[str, "os.PathLike[str]"]


class DyadMetadataWrapper(ctypes.Structure):
    """What is known of a published file."""

    _fields_ = [("fpath", ctypes.c_char_p), ("owner_rank", ctypes.c_uint32)]


class DyadMetadata:
    """The same with the fields as attributes."""

    def __init__(self, metadata_wrapper: Any, dyad_obj: "Dyad") -> None:
        self.mdata = metadata_wrapper
        self.dyad_bindings_obj = dyad_obj

    def __getattr__(self, attr_name: str) -> Any:
        if attr_name in ("fpath", "owner_rank"):
            return getattr(self.mdata.contents, attr_name)
        raise AttributeError(f"{attr_name} is not an attribute of DYAD's metadata")


class DTLMode(enum.Enum):
    """How DYAD moves bytes. Accepted and ignored: dyad-p2p moves them by UCX."""

    DYAD_DTL_UCX = "UCX"
    DYAD_DTL_MARGO = "MARGO"
    DYAD_DTL_FLUX_RPC = "FLUX_RPC"

    def __str__(self) -> str:
        return str(self.value)


class DTLCommMode(enum.IntEnum):
    """In which direction DYAD moves bytes. Accepted and ignored."""

    DYAD_COMM_NONE = 0
    DYAD_COMM_RECV = 1
    DYAD_COMM_SEND = 2
    DYAD_COMM_END = 3


def _directory(name: Optional[str]) -> Optional[Path]:
    return Path(name).expanduser().resolve() if name else None


class Dyad:
    """Joins with init() or init_env(), until the process exits. A call that fails raises RuntimeError."""

    def __init__(self) -> None:
        self.initialized = False
        self.cons_path: Optional[Path] = None
        self.prod_path: Optional[Path] = None

    def init(
        self,
        debug: bool = False,
        check: bool = False,
        shared_storage: bool = False,
        reinit: bool = False,
        async_publish: bool = False,
        fsync_write: bool = False,
        key_depth: int = 3,
        key_bins: int = 1024,
        service_mux: int = 1,
        kvs_namespace: Optional[str] = None,
        prod_managed_path: Optional[str] = None,
        cons_managed_path: Optional[str] = None,
        relative_to_managed_path: bool = False,
        dtl_mode: Optional[DTLMode] = None,
        dtl_comm_mode: DTLCommMode = DTLCommMode.DYAD_COMM_RECV,
        flux_handle: Any = None,
    ) -> None:
        """Join with these directories. The namespace counts, too; of the rest the environment says what there is to say."""
        params = _calls.make_params(
            path_producer=prod_managed_path or None, path_consumer=cons_managed_path or None, kvs_namespace=kvs_namespace or None
        )
        try:
            _calls.join(params)
        except OSError as error:
            raise RuntimeError(f"Could not initialize DYAD! {error}") from error
        self.prod_path = _directory(prod_managed_path)
        self.cons_path = _directory(cons_managed_path)
        self.initialized = True

    def init_env(self, dtl_comm_mode: DTLCommMode = DTLCommMode.DYAD_COMM_RECV, flux_handle: Any = None) -> None:
        """Join with the variables of the environment."""
        try:
            _calls.join()
        except OSError as error:
            raise RuntimeError(f"Could not initialize DYAD with environment variables {error}") from error
        both = os.environ.get("DYAD_PATH")
        self.prod_path = _directory(os.environ.get("DYAD_PATH_PRODUCER") or both)
        self.cons_path = _directory(os.environ.get("DYAD_PATH_CONSUMER") or both)
        self.initialized = True

    def produce(self, fname: _Name) -> None:
        """Publish a file."""
        try:
            dyad.produce(fname)
        except OSError as error:
            raise RuntimeError(f"Cannot produce data with DYAD! {error}") from error

    def consume(self, fname: _Name) -> None:
        """Wait until a file is published and here."""
        try:
            dyad.consume(fname)
        except OSError as error:
            raise RuntimeError(f"Cannot consume data with DYAD! {error}") from error

    def consume_w_metadata(self, fname: _Name, metadata_wrapper: Any) -> None:
        """The same; what is known already is not needed."""
        self.consume(fname)

    def get_metadata(self, fname: _Name, should_wait: bool = False, raw: bool = False) -> Any:
        """What is known of a file; None if it is not published. `should_wait`: fetch it first, when it is published."""
        try:
            if should_wait:
                dyad.consume(fname)
            found = dyad.lookup(fname)
        except OSError:
            return None
        mdata = ctypes.pointer(DyadMetadataWrapper(os.fsencode(fname), found.owner_rank))
        return mdata if raw else DyadMetadata(mdata, self)

    def free_metadata(self, metadata_wrapper: Any) -> None:
        """Nothing: Python frees it."""

    def finalize(self) -> None:
        """This object is done. The process goes on serving its files, and leaves at its exit."""
        self.initialized = False
