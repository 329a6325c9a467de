"""Runs the command line inside the test's process: networks to give it, and what its answers must look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ethoscade.__main__ import main
from ethoscade.ir import Activation
from ethoscade.testing import ModelBuilder, residual_network, tiny_conv

Capture = pytest.CaptureFixture[str]

TINY = tiny_conv()
RESIDUAL = residual_network(blocks=2, channels=8, resolution=16)


def resized_classifier() -> bytes:
    """Two residual blocks and a classifier, between which an image is resized on the CPU."""
    b = ModelBuilder("resized_classifier")
    x = b.conv2d(b.input((1, 16, 16, 3), name="image"), 8, 3, activation=Activation.RELU)
    for stride in (1, 2):
        width = 8 * stride
        y = b.conv2d(b.conv2d(x, width, 3, stride=stride, activation=Activation.RELU), width, 3)
        shortcut = x if stride == 1 else b.conv2d(x, width, 1, stride=stride)
        x = b.add(y, shortcut, activation=Activation.RELU)
    b.fully_connected(b.mean(b.resize_nearest(x, (7, 5))), 10, name="classes")
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
