"""Look-ups that become part of the operations before them, and chains of them one table."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen import provenance
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering.npu import OperationKind, Table
from ethoscade.pipeline import compiler
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import ModelBuilder, Value
from promised_cycles import broken_promises

Build = Callable[[ModelBuilder, Value], Value]


def network(build: Build, dtype: DType = DType.INT8, shape: tuple[int, ...] = (1, 12, 10, 8)) -> bytes:
    b = ModelBuilder(dtype=dtype, seed=4)
    build(b, b.input(shape))
    return b.build()


def shape_of(model: bytes, accelerator: str = "ethos-u55-256") -> list[tuple[OperationKind, bool]]:
    """The NPU operations of a model: their kinds, and whether they look up."""
    prepared = compiler.prepare(read_tflite(model), load_target(accelerator))
    return [(operation.kind, isinstance(operation.function, Table)) for operation in prepared.npu.operations]


def check(model: bytes, accelerator: str) -> None:
    """As fast as can be and as small, bit-exact with the reference."""
    graph = read_tflite(model)
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(model, accelerator=accelerator, optimise=optimise)
        for seed in range(2):
            inputs = random_inputs(graph, seed)
            found = compiled.simulate(inputs)
            for name, value in reference.run(graph, inputs).outputs.items():
                np.testing.assert_array_equal(found.outputs[name], value)


def everything(b: ModelBuilder, x: Value) -> Value:
    """A look-up behind every kind of operation that takes one."""
    x = b.unary("HARD_SWISH", b.leaky_relu(b.conv2d(x, 16, 3, activation=Activation.RELU)))
    x = b.unary("TANH", b.depthwise(x, 3))
    x = b.gelu(b.add(b.gelu(b.depthwise(x, 3)), b.unary("LOGISTIC", x)))
    x = b.leaky_relu(b.max_pool(x), 0.3)
    x = b.unary("RELU", b.quantize(b.average_pool(x, 3, stride=1, padding="SAME")))
    x = b.gelu(b.concatenate([x, x]), approximate=True)
    x = b.unary("TANH", b.mean(x, keep_dims=True))
    return b.unary("LOGISTIC", b.fully_connected(x, 40))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_folded_look_ups_are_exact_and_what_was_promised(accelerator: str) -> None:
    model = network(everything, DType.UINT8 if accelerator.endswith("128") else DType.INT8)
    check(model, accelerator)
    prepared = compiler.prepare(read_tflite(model), load_target(accelerator))
    alone = [o for o in prepared.npu.operations if isinstance(o.function, Table) and not o.absorbed]
    assert [prepared.graph.operators[o.operator].kind for o in alone] == ["LOGISTIC"], "its input has another reader"
    plain = [o for o in prepared.npu.operations if not isinstance(o.function, Table)]
    assert [prepared.graph.operators[o.operator].kind for o in plain] == ["AVERAGE_POOL_2D"], "a QUANTIZE is behind it"
    curve = compiler.search(prepared)
    for index in {0, len(curve.points) - 1}:
        assert not list(broken_promises(prepared, curve, index))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_a_chain_is_one_table(dtype: DType) -> None:
    model = network(lambda b, x: b.gelu(b.unary("TANH", b.leaky_relu(x))), dtype)
    assert shape_of(model) == [(OperationKind.MAX_POOL, True)]
    check(model, "ethos-u55-64")


def two_readers(b: ModelBuilder, x: Value) -> Value:
    y = b.conv2d(x, 8, 1)
    return b.add(b.unary("TANH", y), b.depthwise(y, 3))


def given_back(b: ModelBuilder, x: Value) -> Value:
    y = b.conv2d(x, 8, 1)
    made = b.unary("TANH", y)
    b.output(y, made)
    return made


def read_on_the_cpu(b: ModelBuilder, x: Value) -> Value:
    y = b.conv2d(x, 8, 1)
    b.output(b.unary("TANH", y), b.resize_nearest(y, (7, 5)))
    return y


def behind_the_cpu(b: ModelBuilder, x: Value) -> Value:
    y = b.resize_nearest(b.conv2d(x, 8, 1), (7, 5))
    return b.unary("TANH", y)


@pytest.mark.parametrize("build", [two_readers, given_back, read_on_the_cpu, behind_the_cpu])
def test_what_others_look_at_stays(build: Build) -> None:
    model = network(build)
    assert shape_of(model)[:2] == [(OperationKind.CONVOLUTION, False), (OperationKind.MAX_POOL, True)]
    check(model, "ethos-u55-256")


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-64"])
@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_0_TO_1"])
def test_what_only_rescales_looks_up_where_that_is_faster(kind: str, accelerator: str) -> None:
    def build(b: ModelBuilder, x: Value, is_shared: bool) -> Value:
        y = b.conv2d(x, 8, 1)
        made = b.unary(kind, y, output=Quantisation((0.004,), (-100,)))
        b.output(made, *[b.max_pool(y)] * is_shared)
        return made

    alone, shared = (network(lambda b, x, is_shared=found: build(b, x, is_shared)) for found in (False, True))
    assert shape_of(alone, accelerator)[:1] == [(OperationKind.CONVOLUTION, True)], "one table, no more operations"
    copied = (OperationKind.MAX_POOL, True) if accelerator.endswith("-32") else (OperationKind.AVERAGE_POOL, False)
    assert shape_of(shared, accelerator)[:2] == [(OperationKind.CONVOLUTION, False), copied]
    for model in (alone, shared):
        check(model, accelerator)


def test_folded_operators_are_named_and_their_tensors_are_gone() -> None:
    model = network(lambda b, x: b.leaky_relu(b.conv2d(x, 8, 3, name="conv"), name="leaky"))
    compiled = ethoscade.compile(model)
    names = [tensor.name for tensor in compiled.artifact.graph.tensors]
    assert names.index("conv") not in compiled.artifact.offsets and names.index("leaky") in compiled.artifact.offsets
    (call,) = compiled.artifact.calls
    assert isinstance(call, NpuCall) and set(call.operators) == {"conv;leaky"}
    assert provenance.short([call.operators])[0][0] == "conv"
    assert [(op.kind, op.where) for op in compiled.operators] == [("CONV_2D", "npu"), ("LEAKY_RELU", "npu")]
    ((operator,),) = (group.operators for group in compiled.explain().groups)
    assert operator.kind == "CONV_2D + LEAKY_RELU"
