"""The simplest schedule there is: one stripe per operation, every tensor whole, nothing reused.

Enough to run lowering and code generation end to end without the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ethoscade.codegen import vela
from ethoscade.codegen.command_stream import build_operations, generate
from ethoscade.codegen.streams import EncodingChoice
from ethoscade.codegen.weights import Constants, OperationConstants, encode
from ethoscade.ir import Graph
from ethoscade.lowering import lower
from ethoscade.lowering.feature_maps import FeatureMap, NpuTensor
from ethoscade.lowering.npu import NpuOperation, OperationKind, Table
from ethoscade.pipeline.partition import partition
from ethoscade.scheduling.program import CopyConstants, LoadTable, Slab, Step, Stripe
from ethoscade.targets.target import Accelerator
from replay import image, pixels_read

TEMPORARIES = 1 << 30
"""Numbers from here on are those of temporaries, far from all of the graph's tensors."""


@dataclass(frozen=True)
class WholeTensor:
    """A payload with its constants and the arena offset of every tensor (graph index, or `TEMPORARIES` and its id)."""

    payload: bytes
    constants: bytes
    offsets: Mapping[int, int]
    arena_bytes: int
    operations: tuple[NpuOperation, ...]


def whole(fm: FeatureMap, buffer: int) -> Slab:
    """All of an operation's output in a buffer of the whole tensor's size."""
    (row, column), (h, w, _) = fm.corner, fm.shape
    return Slab(buffer, row, row + h, column, column + w, *fm.plane)


def read_box(operation: NpuOperation, number: int, buffer: int) -> Slab:
    """What a whole operation reads of an input, from the first element that its index expression names to the last."""
    compute, fm = operation.compute, operation.inputs[number]
    extents = {axis.name: axis.extent for axis in (*compute.axes, *compute.reductions)}
    spans = []
    for expression, (start, end) in zip(compute.reads[number].indices[1:3], image(operation, number), strict=True):
        reach = sum(by * (extents[name] - 1) for name, by in expression.coefficients.items())
        first, last = (at // expression.divisor for at in (expression.constant, expression.constant + reach))
        spans.append((max(first, start), min(last + 1, end)))
    (y0, y1), (x0, x1) = spans
    return Slab(buffer, y0, y1, x0, x1, *fm.shape[:2])


def exact_padding(operation: NpuOperation, output: Slab) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) that the windows of an output box touch."""
    _, top, bottom = pixels_read(operation, 0, output, 0)
    _, left, right = pixels_read(operation, 0, output, 1)
    return top, left, bottom, right


def pick_block(
    operation: NpuOperation, stripe: Stripe, accelerator: Accelerator, rank: float = 1.0
) -> tuple[int, int, int]:
    """One of the blocks that Vela finds valid, by volume: 1 the largest, 0 the smallest."""
    fake = OperationConstants(0, 0, 0, 0, EncodingChoice(stripe.block[2]))
    offsets = dict.fromkeys((*(s.buffer for s in stripe.inputs), stripe.output.buffer), 0)
    table = operation.function if isinstance(operation.function, Table) else None
    kernel = build_operations(
        [operation],
        [
            *([] if table is None else [LoadTable(0, 0)]),
            Stripe(0, stripe.inputs, stripe.output, stripe.padding, stripe.block),
        ],
        offsets,
        Constants(
            b"",
            {(0, stripe.portion): fake} if operation.weights is not None else {},
            {} if table is None else {table: 0},
        ),
    )[-1]
    blocks = sorted(vela.valid_blocks(kernel, accelerator), key=lambda b: (b[0] * b[1] * b[2], b))
    return blocks[round(rank * (len(blocks) - 1))]


def part_kernel(operation: NpuOperation) -> bool:
    """A choice that exercises both orders: part-kernel-first for shallow inputs."""
    return operation.kind is OperationKind.CONVOLUTION and operation.inputs[0].shape[2] <= 8


def compile_whole(graph: Graph, accelerator: Accelerator, *, rank: float = 1.0, staged: bool = False) -> WholeTensor:
    """Compile all NPU operators of `graph` as one run; with `staged`, constants are copied to the arena first."""
    npu = lower(graph, partition(graph, accelerator))
    operations = npu.operations
    offsets: dict[int, int] = {}
    top = 0
    for i, tensor in enumerate(graph.tensors):
        if not tensor.is_constant:
            offsets[i] = top
            top += -(-tensor.size_bytes // 16) * 16
    offsets |= {alias: offsets[made] for alias, made in npu.aliases.items()}
    for temporary in npu.tensors:
        if temporary.graph_tensor is None:
            offsets[_buffer(temporary)] = top
            top += -(-temporary.size_bytes // 16) * 16
    stripes = [_stripe(i, operation, accelerator, rank) for i, operation in enumerate(operations)]
    choices = [EncodingChoice(s.block[2], part_kernel(o)) for s, o in zip(stripes, operations, strict=True)]
    constants = encode(operations, accelerator, choices)
    steps: list[Step] = []
    placed = dict(offsets)
    for i, stripe in enumerate(stripes):
        place = constants.place(i)
        if staged and place is not None:
            buffer = len(graph.tensors) + i
            placed[buffer] = top
            top += place.length_bytes
            steps.append(CopyConstants(i, buffer))
            stripe = Stripe(i, stripe.inputs, stripe.output, stripe.padding, stripe.block, buffer)
        if isinstance(operations[i].function, Table):
            steps.append(LoadTable(i, 0))
        steps.append(stripe)
    payload = generate(operations, steps, placed, constants, accelerator)
    return WholeTensor(payload, constants.blob, offsets, top, operations)


def _buffer(tensor: NpuTensor) -> int:
    return TEMPORARIES + tensor.id if tensor.graph_tensor is None else tensor.graph_tensor


def _stripe(index: int, operation: NpuOperation, accelerator: Accelerator, rank: float) -> Stripe:
    output = whole(operation.ofm, _buffer(operation.ofm.tensor))
    inputs = tuple(read_box(operation, i, _buffer(fm.tensor)) for i, fm in enumerate(operation.inputs))
    stripe = Stripe(index, inputs, output, exact_padding(operation, output), (1, 1, 8))
    return Stripe(index, inputs, output, stripe.padding, pick_block(operation, stripe, accelerator, rank))
