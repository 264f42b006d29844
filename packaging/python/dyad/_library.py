"""Finds libdyad.so.1, loads it, and declares its functions."""

import ctypes
import ctypes.util
import os
import re
from typing import List, Optional

# The version of libdyad that this package was made for; a library of another minor version may have other structures.
VERSION = "0.1.0"


class Params(ctypes.Structure):
    """struct dyad_params"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char_p),
        ("path_producer", ctypes.c_char_p),
        ("path_consumer", ctypes.c_char_p),
        ("kvs_namespace", ctypes.c_char_p),
        ("timeout", ctypes.c_double),
        ("key_depth", ctypes.c_int),
        ("key_bins", ctypes.c_int),
        ("replicas", ctypes.c_int),
    ]


class RawMetadata(ctypes.Structure):
    """struct dyad_metadata"""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("mode", ctypes.c_uint32),
        ("mtime_sec", ctypes.c_int64),
        ("mtime_nsec", ctypes.c_uint32),
        ("owner_rank", ctypes.c_uint32),
        ("version", ctypes.c_uint64),
    ]


class _Symbol(ctypes.Structure):
    """Dl_info of dladdr(3)"""

    _fields_ = [
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    ]


def _mapped(pattern: str) -> Optional[str]:
    """The path of a library that this process has loaded already."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and re.fullmatch(pattern, os.path.basename(fields[5])):
                return fields[5]
    return None


_WRAPPER = _mapped(r"libdyad_wrapper\.so")


def wrapper_is_here() -> bool:
    """True if libdyad_wrapper.so is preloaded: then each close publishes by itself."""
    return _WRAPPER is not None


def _candidates() -> List[str]:
    # A second copy beside the one of the wrapper would be another client of the same process: the wrapper's comes first.
    loaded = _mapped(r"libdyad\.so\.[0-9.]+")
    if loaded:
        return [loaded]
    if _WRAPPER:
        return [os.path.join(os.path.dirname(_WRAPPER), "libdyad.so.1")]
    named = os.environ.get("DYAD_LIBRARY")
    if named:
        return [named]
    found = []
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for _ in range(6):
        for sub in ("", "lib64", "lib"):
            found.append(os.path.join(above, sub, "libdyad.so.1"))
        above = os.path.dirname(above)
    found = [path for path in found if os.path.exists(path)]
    by_name = ctypes.util.find_library("dyad")
    if by_name:
        found.append(by_name)
    found.append("libdyad.so.1")
    return found


def _file_of(library: ctypes.CDLL) -> str:
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Symbol)]
    symbol = _Symbol()
    address = ctypes.cast(library.dyad_init, ctypes.c_void_p)
    if not dladdr(address, ctypes.byref(symbol)) or not symbol.fname:
        return ""
    return os.path.realpath(os.fsdecode(symbol.fname))


_ADVICE = (
    "install the library and this package from one version of dyad-p2p, or name the library of that version in DYAD_LIBRARY"
)


def _check(library: ctypes.CDLL) -> None:
    # libdyad has no function that tells its version: its file's name does.
    path = _file_of(library)
    match = re.search(r"libdyad\.so\.(\d+)\.(\d+)\.(\d+)$", path)
    if match and list(match.groups()[:2]) != VERSION.split(".")[:2]:
        raise ImportError(f"{path} is version {'.'.join(match.groups())}, but this package is made for {VERSION}: {_ADVICE}")


def _declare(library: ctypes.CDLL) -> None:
    path = [ctypes.c_char_p]
    functions = {
        "dyad_init_params": [ctypes.POINTER(Params)],
        "dyad_finalize": [],
        "dyad_produce": path,
        "dyad_consume": path,
        "dyad_consume_timeout": [ctypes.c_char_p, ctypes.c_double],
        "dyad_laminate": path,
        "dyad_prefetch": path,
        "dyad_lookup": [ctypes.c_char_p, ctypes.POINTER(RawMetadata)],
        "dyad_withdraw": path,
    }
    try:
        for name, types in functions.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = ctypes.c_int
        library.dyad_strerror.argtypes = [ctypes.c_int]
        library.dyad_strerror.restype = ctypes.c_char_p
    except AttributeError as error:
        raise ImportError(f"this libdyad lacks a function ({error}): {_ADVICE}") from None


def _load() -> ctypes.CDLL:
    reasons = []
    for path in _candidates():
        try:
            # A CDLL releases the GIL while a function of it runs.
            library = ctypes.CDLL(path, use_errno=True)
        except OSError as error:
            reasons.append(str(error))
            continue
        _declare(library)
        _check(library)
        return library
    raise ImportError(
        "libdyad.so.1 cannot be loaded: name it in DYAD_LIBRARY, or its directory in LD_LIBRARY_PATH (" + "; ".join(reasons) + ")"
    )


lib = _load()
