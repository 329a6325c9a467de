"""A model of either file format: the identifier in the file decides, not the file's name."""

from __future__ import annotations

import os

from ..ir import Graph
from .flatbuffer import TOSA_IDENTIFIER
from .reader import read_bytes
from .source import read_source


def read_model(source: str | os.PathLike[str] | bytes, name: str | None = None) -> Graph:
    """Read a TensorFlow Lite or a TOSA model from a path or from bytes.

    Raises as `read_tflite` and `tosa.read_tosa`.
    """
    return read_source(source, name, _read)


def _read(data: bytes, name: str) -> Graph:
    if data[4:8] != TOSA_IDENTIFIER:
        return read_bytes(data, name)
    # A process that has no such file does not wait for this code.
    from .tosa.reader import read_bytes as read_tosa_bytes

    return read_tosa_bytes(data, name)
