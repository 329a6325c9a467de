"""Images of one column laid along one row."""

from __future__ import annotations

import ethoscade
import pytest
from end_to_end import network_of
from ethoscade.ir import DType
from ethoscade.lowering import views
from ethoscade.testing import ModelBuilder, random_network


def pooled_along(kind: str, *, dtype: DType = DType.INT8) -> bytes:
    """As Keras writes them: a convolution along one row, and a window along one column of what it makes."""
    b = ModelBuilder("along", dtype=dtype)
    x = b.conv2d(b.input((1, 1, 96, 8), name="input"), 32, (1, 3), padding="VALID", name="convolution")
    x = b.reshape(x, (1, 94, 1, 32))
    if kind == "depthwise":
        x = b.depthwise(x, (3, 1), stride=(2, 1), padding="SAME", name="window")
    elif kind == "conv2d":
        x = b.conv2d(x, 8, (4, 1), stride=(3, 1), padding="VALID", name="window")
    else:
        x = getattr(b, kind)(x, (2, 1), stride=(2, 1), padding="VALID", name="window")
    b.conv2d(b.reshape(x, (1, 1, x.shape[1], x.shape[3])), 4, 1, name="last")
    return b.build()


@pytest.mark.parametrize("kind", ["max_pool", "average_pool", "depthwise", "conv2d"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_windows_along_a_column_cascade_with_those_along_a_row(kind: str, dtype: DType) -> None:
    model = pooled_along(kind, dtype=dtype)
    compiled = ethoscade.compile(model, accelerator="ethos-u55-256", optimise="size")
    window = next(o for o in compiled.npu.operations if o.name == "window")
    assert window.ifm.shape == (1, 94, 32) and window.ofm.shape[0] == 1
    # The convolution's output alone, were it ever whole.
    assert compiled.sram_bytes < 94 * 32 * dtype.size_bytes
    assert compiled.verify(seeds=3).ok


@pytest.mark.parametrize("kind", ["max_pool", "average_pool", "depthwise", "conv2d"])
def test_taps_beside_the_column_see_padding(kind: str) -> None:
    """Four rows and three columns of taps: what they weigh, and which of them padding is, turns with the window."""
    b = ModelBuilder("beside")
    x = b.reshape(b.conv2d(b.input((1, 1, 40, 8), name="input"), 16, (1, 3), name="convolution"), (1, 40, 1, 16))
    channels = (8,) if kind == "conv2d" else ()
    getattr(b, kind)(x, *channels, (4, 3), stride=1, padding="SAME", name="window")
    compiled = ethoscade.compile(b.build(), accelerator="ethos-u55-256", optimise="size")
    window = next(o for o in compiled.npu.operations if o.name == "window")
    assert window.ifm.shape == (1, 40, 16)
    assert (window.window.kernel_h, window.window.kernel_w) == (3, 4)
    assert views.pads(window.window) == (1, 1, 1, 2)
    assert compiled.verify(seeds=3).ok


def test_networks_of_columns_stay_columns() -> None:
    b = ModelBuilder("columns")
    x = b.conv2d(b.input((1, 96, 1, 8), name="input"), 16, (3, 1), name="first")
    b.max_pool(b.add(x, b.depthwise(x, (3, 1))), (2, 1), stride=(2, 1), name="last")
    operations = network_of(b.build()).npu.operations
    assert all(operation.ofm.shape[1] == 1 and operation.ofm.shape[0] > 1 for operation in operations)


def test_random_networks_have_both() -> None:
    turned = 0
    for seed in range(300):
        network = network_of(random_network(seed))
        for operation in network.npu.operations:
            kind = network.graph.operators[operation.operator].kind
            if kind in {"MAX_POOL_2D", "AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D"} and operation.ifm.shape[0] == 1:
                turned += network.graph.read(network.graph.operators[operation.operator]).shape[1] > 1
    assert turned >= 5
