"""Convolutions in front of global pools by slices of channels."""

from __future__ import annotations

import ethoscade
import pytest
from end_to_end import network_of
from ethoscade.ir import Activation, DType
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as scheduling
from ethoscade.testing import ModelBuilder, random_network


def head(
    *, pixels: int = 4, read: int = 16, made: int = 256, how: str = "average_pool", dtype: DType = DType.INT8
) -> ModelBuilder:
    b = ModelBuilder("head", dtype=dtype)
    x = b.conv2d(b.input((1, pixels, pixels, read), name="input"), made, 1, name="wide", activation=Activation.RELU6)
    if how == "mean":
        b.reduce("MEAN", x, (1, 2), name="pooled")
    else:
        getattr(b, how)(x, (pixels, pixels), stride=1, padding="VALID", name="pooled")
    return b


def test_no_more_channels_are_there_than_are_read() -> None:
    """By hand: the input, its last slice of as many bytes, and the pixels of the others, 16 bytes each."""
    compiled = ethoscade.compile(head().build(), accelerator="ethos-u55-256", optimise="size")
    assert compiled.curve.orders[0] == 1
    assert compiled.sram_bytes == 256 + 256 + 15 * 16
    assert compiled.verify(seeds=3).ok
    file = explore(network_of(head().build()).problem, 0)
    assert file.floor_bytes >= 4096, "all channels of all pixels"
    assert compiled.explain().sliced == ("wide",)
    line = "by slices of channels, each pooled before the next one is made: operator 'wide'"
    assert line in str(compiled.explain()).splitlines()


def test_a_budget_that_needs_no_slices_has_none() -> None:
    found = ethoscade.compile(head().build(), accelerator="ethos-u55-256", sram=6000, optimise="fastest")
    assert found.explain().sliced == ()
    least = ethoscade.compile(head().build(), accelerator="ethos-u55-256", sram=1000, optimise="fastest")
    assert least.explain().sliced == ("wide",)
    with pytest.raises(ethoscade.BudgetError) as error:
        ethoscade.compile(head().build(), accelerator="ethos-u55-256", sram=700)
    assert error.value.floor_bytes == 752


@pytest.mark.parametrize("how", ["average_pool", "max_pool", "mean"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_each_pool_is_exact(how: str, dtype: DType) -> None:
    """The last slice has fewer channels."""
    model = head(pixels=5, read=24, made=200, how=how, dtype=dtype).build()
    compiled = ethoscade.compile(model, accelerator="ethos-u55-128", optimise="size")
    assert compiled.explain().sliced == ("wide",)
    assert compiled.verify(seeds=3).ok


def no_head(what: str) -> ModelBuilder:
    b = ModelBuilder(what)
    x = b.input((1, 8, 8, 16), name="input")
    if what == "no wider than what is read":
        b.average_pool(b.conv2d(x, 16, 1), (8, 8), stride=1, padding="VALID")
    elif what == "a pool of parts":
        b.average_pool(b.conv2d(x, 128, 1), (4, 4), stride=4, padding="VALID")
    elif what == "read twice":
        wide = b.conv2d(x, 128, 1)
        mean = b.average_pool(wide, (8, 8), stride=1, padding="VALID")
        b.output(mean, b.max_pool(wide, (8, 8), stride=1, padding="VALID"))
    elif what == "an output itself":
        wide = b.conv2d(x, 128, 1)
        b.output(wide, b.average_pool(wide, (8, 8), stride=1, padding="VALID"))
    return b


@pytest.mark.parametrize("what", ["no wider than what is read", "a pool of parts", "read twice", "an output itself"])
def test_what_is_no_head_stays_whole(what: str) -> None:
    network = network_of(no_head(what).build())
    assert network.in_slices is None and network.sliced_bytes == 0
    assert network.order(1) is network


def test_a_floor_elsewhere_asks_for_no_slices() -> None:
    """What a first layer needs is more than the last convolution reads and makes."""
    b = ModelBuilder("elsewhere")
    x = b.conv2d(b.input((1, 32, 32, 16), name="input"), 16, 3, stride=2, padding="SAME")
    x = b.max_pool(x, 2, stride=4, padding="SAME")
    b.average_pool(b.conv2d(x, 256, 1), (4, 4), stride=1, padding="VALID")
    network = network_of(b.build())
    assert network.in_slices is not None
    assert ethoscade.frontier(b.build(), accelerator="ethos-u55-256").orders == ()


def test_random_networks_in_slices_make_all_channels_once() -> None:
    found = 0
    for seed in range(3, 400, 8):
        network = network_of(random_network(seed)).in_slices
        if network is None:
            continue
        found += 1
        file = network_of(random_network(seed))
        for operator in network.npu.sliced:
            whole = [o for o in file.npu.operations if o.operator == operator]
            slices = [o for o in network.npu.operations if o.operator == operator]
            assert sum(o.ofm.shape[2] for o in slices) == whole[0].ofm.shape[2], f"seed {seed}"
            brick = slices[0].ofm.tensor.placed_bytes * 16 // slices[0].ofm.shape[2]
            assert all(o.ofm.tensor.placed_bytes < o.ifm.tensor.placed_bytes + brick for o in slices)
        scheduling.prove(network.problem, scheduling.uncascaded(network.problem))
    assert found >= 15
