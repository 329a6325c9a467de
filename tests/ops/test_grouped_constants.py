"""Convolutions of some channels each: their constants are each one's own, and never copied for one another."""

from __future__ import annotations

from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import prepare
from ethoscade.targets.target import load_target
from ethoscade.testing import ModelBuilder


def test_the_constants_of_several_operations_are_those_of_each() -> None:
    b = ModelBuilder(seed=3)
    b.conv2d(b.conv2d(b.input((1, 6, 6, 4)), 128, 1), 128, 3, groups=4)
    problem = prepare(read_tflite(b.build()), load_target("ethos-u55-128")).problem
    (joint,) = (spec.kernel for spec in problem.specs if spec.kernel is not None and spec.kernel.joined)
    assert (joint.staged, joint.sliced) == (None, None)
    assert joint.constant_bytes == sum(one.operation.constant_bytes for one in joint.joined)
    assert len(joint.joined) == 4 and all(one.operation.constant_bytes > 0 for one in joint.joined)
    assert all(one.operation.staged is None and one.operation.sliced is None for one in joint.joined)
