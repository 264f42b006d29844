"""DYAD's Python binding, by its names, over dyad-p2p."""

from .bindings import Dyad
from .context import dyad_open

__all__ = ["Dyad", "dyad_open"]
