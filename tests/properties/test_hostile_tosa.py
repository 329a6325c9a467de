"""Damaged TOSA files end in an `EthoscadeError`, soon, and never in the reader's safety net."""

from __future__ import annotations

import random
import struct
import sys

import pytest
from ethoscade.errors import EthoscadeError
from ethoscade.frontend.tosa import read_tosa
from model_files import NO_TOSA, tosa_paths
from tosa_networks import network

SMALL = [path for path in tosa_paths() if path.stat().st_size < 16 * 1024][:10]
DRAWN = [
    network(f"hostile {kinds}", kinds.split()).bytes()
    for kinds in (
        "CONV2D RESCALE CLAMP", "DEPTHWISE_CONV2D RESCALE", "RESIZE PAD", "AVG_POOL2D CONCAT", "MATMUL TRANSPOSE",
        "TABLE SLICE", "MUL SELECT", "GATHER REDUCE_SUM", "TRANSPOSE_CONV2D TILE", "CONV3D RESHAPE",
    )
]  # fmt: skip
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


def survives(content: bytes) -> bool:
    """Whether the file is still read; what refuses it is no error of Python's."""
    try:
        read_tosa(content)
    except EthoscadeError as error:
        assert error.__cause__ is None, f"the safety net caught {error.__cause__!r}"  # noqa: PT017
        assert str(error)  # noqa: PT017
        return False
    return True


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four places changed: a byte, or a 32-bit number as references and counts are."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.5:
            changed[rng.randrange(len(changed))] = rng.choice((*_EXTREMES, rng.randrange(256)))
        else:
            at = rng.randrange(len(changed) // 4) * 4
            number = struct.unpack_from("<I", changed, at)[0] if len(changed) - at >= 4 else 0
            other = rng.choice((0, 1, number + 1, number - 1, number * 2, 1 << 31, (1 << 32) - 1, len(changed)))
            changed[at : at + 4] = struct.pack("<I", other % (1 << 32))[: len(changed) - at]
    return bytes(changed)


def attack(content: bytes, rng: random.Random, count: int) -> int:
    """How many of `count` damaged files are still read."""
    return sum(survives(damaged(content, rng)) for _ in range(count))


def test_the_files_themselves_are_fine() -> None:
    assert all(map(survives, DRAWN))


@pytest.mark.parametrize("number", range(len(DRAWN)))
def test_damaged_files(number: int) -> None:
    read = attack(DRAWN[number], random.Random(number), 60)
    assert 0 < read < 60, "damage is found, and not all of it"


def test_truncated_files() -> None:
    for content in DRAWN[:3]:
        assert not any(survives(content[:length]) for length in range(0, len(content) - 8, 7))


def test_damaged_files_of_executorch() -> None:
    if not SMALL:
        pytest.skip(NO_TOSA)
    rng = random.Random(5)
    assert sum(attack(path.read_bytes(), rng, 20) for path in SMALL) > 0


if __name__ == "__main__":
    # python tests/properties/test_hostile_tosa.py COUNT: so many of each file.
    for content in (*DRAWN, *(path.read_bytes() for path in SMALL)):
        print(len(content), attack(content, random.Random(len(content)), int(sys.argv[1])), flush=True)
