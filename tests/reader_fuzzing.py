"""The readers of files from outside as functions of any bytes: only our errors may come out of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ethoscade import memory
from ethoscade.errors import ConfigError, EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.memory import Buffer, Gap, Share
from ethoscade.rewrites import simplify
from ethoscade.testing import residual_network, tiny_conv
from npu_mutations import damage_bytes

WORDS = (
    b"id", b"lower", b"upper", b"end", b"size", b"gaps", b"pin", b"offset", b"conflicts", b"shares", b"pools",
    b"access", b",", b"\n", b"\r", b'"', b"-", b"@", b":", b"%20", b"%", b" ", b"\x00", b"\xef\xbb\xbf", b"9" * 40,
    b"a:ro", b"1-2@3:4",
)  # fmt: skip


def read_model(data: bytes, folder: Path) -> str:
    """Reads and simplifies a model, without a `folder`; how that ended. Raises what is none of our errors."""
    try:
        simplify(read_tflite(data), lambda graph, op: True).verify()
    except EthoscadeError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        return type(error).__name__
    return "read"


def read_buffers(data: bytes, folder: Path) -> str:
    """Reads a file of buffers in `folder`, writes it and reads it again; how that ended."""
    path = folder / "buffers.csv"
    path.write_bytes(data)
    try:
        found = memory.read_csv(path)
    except ConfigError as error:
        assert str(path) in str(error) and "\n" not in str(error), error  # noqa: PT017
        return type(error).__name__
    memory.write_csv(path, found)
    again = memory.read_csv(path)
    assert again == found, f"{found} became {again}"
    return "read"


def buffer_files(folder: Path) -> list[bytes]:
    """Files with few columns and with all."""
    path = folder / "buffers.csv"
    plain = (Buffer("a", 0, 3, 4), Buffer("b", 3, 9, 4, 16), Buffer("c", -2, 9, 40))
    rich = (
        Buffer("x y", 0, 9, 10, 4, pools=("fast ram", "50%"), conflicts=("a@b:1", "w"), access=(("cpu:0", "rw"),)),
        Buffer("a@b:1", 0, 3, 8, offset=16, shares=(Share("x y"), Share("w", -8, 24))),
        replace(plain[2], gaps=(Gap(2, 4), Gap(5, 6, (2, 8)))),
        Buffer.constant("w", 7, 16, ("50%", "fast ram"), readers=("npu", "cpu:0")),
    )
    found = []
    for buffers, offsets in ((plain, None), (plain, [0, 4, 16]), (rich, None)):
        memory.write_csv(path, buffers, offsets)
        found.append(path.read_bytes())
    return found


Reader = Callable[[bytes, Path], str]
READERS: dict[str, tuple[Reader, Callable[[Path], list[bytes]]]] = {
    "model": (read_model, lambda _: [tiny_conv(), residual_network(blocks=1, channels=8, resolution=8)]),
    "buffers": (read_buffers, buffer_files),
}
"""By name: the reader, and files that it takes."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A file with bytes changed, or with words of its language put in or over what was there."""
    if rng.randrange(2):
        return damage_bytes(rng, data)
    found = data
    for _ in range(rng.randrange(1, 3)):
        place, word = rng.randrange(len(found) + 1), rng.choice(WORDS)
        found = found[:place] + word + found[place + rng.randrange(len(word) + 1) :]
    return found
