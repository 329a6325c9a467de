"""What the core raises: one error with what it knows as attributes, the same after pickling."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from end_to_end import network_of
from ethoscade import EthoscadeError, SchedulingError, _core
from ethoscade.pipeline.compiler import Network
from ethoscade.scheduling.decisions import PlanSpec, ScheduleSpec
from ethoscade.scheduling.specs import PartSpec
from ethoscade.testing import ModelBuilder


@cache
def network() -> Network:
    """A convolution, a pool, a SOFTMAX on the CPU; the convolution's output is the network's, too."""
    b = ModelBuilder("sample")
    x = b.conv2d(b.input((1, 8, 6, 4), name="input"), 8, 3, name="conv")
    b.output(x, b.softmax(b.mean(b.max_pool(x, 2))))
    return network_of(b.build())


def graph(*, tensors: dict[int, Any] | None = None, parts: dict[int, Any] | None = None, **more: Any) -> Any:
    """The network's graph with other tensors or Parts at some places."""
    problem = network().problem
    these = [(tensors or {}).get(i, tensor) for i, tensor in enumerate(problem.tensors)]
    those = [(parts or {}).get(i, part) for i, part in enumerate(problem.specs)]
    return _core.CascaderGraph(these, those, network().target, **more)


def part(number: int, **changes: Any) -> PartSpec:
    return dataclasses.replace(network().problem.specs[number], **changes)


def kernel(**changes: Any) -> Any:
    return part(0, kernel=dataclasses.replace(network().problem.specs[0].kernel, **changes))


def tensor(number: int, **changes: Any) -> Any:
    return dataclasses.replace(network().problem.tensors[number], **changes)


def read(**changes: Any) -> Any:
    spec = network().problem.specs[0]
    return part(0, inputs=(dataclasses.replace(spec.inputs[0], **changes),))


def plan(first: int = 0, last: int = 0, **changes: Any) -> PlanSpec:
    count = last - first + 1
    whole = PlanSpec(first, last, "height", False, 1, (1 << 30,) * count, ("in_place",) * count)
    return dataclasses.replace(whole, **changes)


def arrange(*plans: PlanSpec) -> None:
    _core.arrange_plans(network().problem.core, ScheduleSpec(plans))


def beyond_addresses() -> None:
    """Tensors that no file holds: 2^58 bytes a pixel."""
    pixel = 1 << 58
    large = [tensor(i, pixel_bytes=pixel, plane=(1, 1)) for i in (0, 1)]
    opaque = dataclasses.replace(network().problem.specs[-1], kernel=None)
    read = dataclasses.replace(opaque.inputs[0], tensor=0, plane=(1, 1), pixel_bytes=pixel)
    more = [dataclasses.replace(large[1], is_output=True) for _ in range(8)]
    outputs = tuple(range(1, 9))
    of = _core.CascaderGraph(
        [large[0], *more], [dataclasses.replace(opaque, inputs=(read,), outputs=outputs)], network().target
    )
    _core.arrange_plans(of, ScheduleSpec([plan()]))


RAISED: dict[str, tuple[Callable[[], object], dict[str, object]]] = {
    "a tensor that is not there": (
        lambda: graph(parts={0: part(0, outputs=(99,))}),
        {"fault": "no_such_tensor", "part": "conv", "value": 99, "limit": len(network().problem.tensors)},
    ),
    "made twice": (
        lambda: graph(parts={1: part(1, outputs=(1,))}),
        {"fault": "order", "tensor": "conv", "value": "made again"},
    ),
    "read before it is made": (
        lambda: graph(parts={0: read(tensor=2, plane=network().problem.tensors[2].plane)}),
        {"fault": "order", "part": "conv", "value": "read before it is made"},
    ),
    "two outputs": (
        lambda: graph(parts={0: part(0, outputs=(1, 2))}),
        {"fault": "outputs", "part": "conv", "value": 2, "expected": 1},
    ),
    "no input": (
        lambda: graph(parts={0: part(0, inputs=())}),
        {"fault": "inputs", "part": "conv", "value": 0, "expected": 1},
    ),
    "other bytes": (
        lambda: graph(parts={0: read(plane=(1, 1))}),
        {"fault": "view", "part": "conv", "tensor": "input"},
    ),
    "updated where nothing is": (
        lambda: graph(tensors={1: tensor(1, is_output=True, updates=99)}),
        {"fault": "update", "tensor": "conv", "value": "it is not there"},
    ),
    "an empty plane": (
        lambda: graph(tensors={0: tensor(0, plane=(0, 6))}),
        {"fault": "empty", "tensor": "input"},
    ),
    "a layout that is none": (
        lambda: graph(tensors={0: tensor(0, layout="NCHW")}),
        {"fault": "name", "value": "NCHW", "expected": ["NHWC", "NHCWB16"]},
    ),
    "a kernel of nothing": (
        lambda: graph(parts={0: kernel(kernel=(0, 3))}),
        {"fault": "extent", "expected": 1},
    ),
    "a kind that is none": (
        lambda: graph(parts={0: kernel(kind="fold")}),
        {"fault": "name", "value": "fold"},
    ),
    "too few numbers": (
        lambda: graph(part_numbers=[0]),
        {"fault": "range", "value": 1, "limit": len(network().problem.specs)},
    ),
    "a number for no tensor": (
        lambda: graph(tensor_numbers=[(0, 99)]),
        {"fault": "range", "value": 99, "limit": len(network().problem.tensors)},
    ),
    "no such part": (
        lambda: _core.part_floor(network().problem.core, 99),
        {"fault": "range", "value": 99, "limit": len(network().problem.specs)},
    ),
    "a gap": (lambda: arrange(plan(1, 1)), {"fault": "cover", "group": 0, "value": (1, 1), "expected": 0}),
    "stripes of nothing": (lambda: arrange(plan(stripes=(0,))), {"fault": "decision", "group": 0}),
    "an axis that is none": (
        lambda: arrange(plan(roll="depth")),
        {"fault": "name", "value": "depth", "expected": ["height", "width"]},
    ),
    "no way to read constants": (
        lambda: arrange(plan(staging=("folded",))),
        {"fault": "name", "value": "folded", "expected": ["in_place", "whole", "sliced"]},
    ),
    "a block that does not fit": (
        lambda: _core.arrange_plans(
            graph(parts={0: kernel(block_depth=1 << 20)}),
            ScheduleSpec([plan(i, i) for i in range(len(network().problem.specs))]),
        ),
        {"fault": "block", "part": "conv", "value": (8, 6)},
    ),
    "bytes beyond addresses": (beyond_addresses, {"fault": "arena", "buffer": 0, "value": 9 << 58}),
    "a resolution that is too fine": (
        lambda: _core.Search(network().problem.core, resolution=1 << 21),
        {"fault": "range", "value": 1 << 21, "limit": _core.FINEST_RESOLUTION},
    ),
    "a kind of buffer that is none": (
        lambda: _core.ProgramBuffer("b", "heap", 1, 0, 1),  # type: ignore[arg-type]
        {"fault": "name", "value": "heap"},
    ),
}


@pytest.mark.parametrize("what", RAISED)
def test_errors_of_the_core_say_what_they_know(what: str) -> None:
    act, known = RAISED[what]
    with pytest.raises(SchedulingError) as caught:
        act()
    error = caught.value
    assert isinstance(error, EthoscadeError)
    assert {name: getattr(error, name) for name in known} == known
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is SchedulingError and vars(again) == vars(error) and str(again) == str(error)
