"""Runs the command line inside the test's process: networks to give it, and what its answers must look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ethoscade.__main__ import main
from ethoscade.testing import ModelBuilder, residual_network, tiny_conv

Capture = pytest.CaptureFixture[str]

TINY = tiny_conv()
RESIDUAL = residual_network(blocks=2, channels=8, resolution=16)


def padded_classifier() -> bytes:
    """A network whose PAD of the classes stays on the CPU."""
    b = ModelBuilder("padded_classifier")
    x = b.input((1, 16, 16, 8), name="image")
    for _ in range(6):
        x = b.conv2d(x, 24, 3)
    b.pad(b.fully_connected(b.mean(x), 10), [(0, 0), (0, 2)], name="padded")
    return b.build()


def written(path: Path, content: bytes) -> str:
    """The path, as an argument, of a file with this content."""
    path.write_bytes(content)
    return str(path)


def run(arguments: Sequence[str], capfd: Capture) -> tuple[int, str, str]:
    """Status, stdout and stderr; argparse's way out counts as a status."""
    try:
        status = main([str(a) for a in arguments])
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    out, err = capfd.readouterr()
    return status, out, err


def run_json(arguments: Sequence[str], capfd: Capture, expected_status: int = 0) -> dict[str, Any]:
    """The one object that --json prints."""
    status, out, _ = run([*arguments, "--json"], capfd)
    assert status == expected_status
    assert out.endswith("\n") and out.count("\n") == 1, out
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def check_keys(found: dict[str, Any], keys: dict[str, Any]) -> None:
    """All keys are there, of their types."""
    for key, kind in keys.items():
        assert isinstance(found[key], kind), f"{key}: {found.get(key)!r}"
        assert kind is bool or not isinstance(found[key], bool), key


def one_sentence(err: str) -> None:
    """No traceback, one line."""
    assert err.startswith("ethoscade")
    assert err.count("\n") == 1 and "Traceback" not in err, err
