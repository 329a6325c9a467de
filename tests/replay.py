"""What a program must satisfy, said a second time in Python and NumPy: shares nothing with the planner or its checker.

Windows are walked pixel by pixel and every buffer remembers which pixel of the feature map each of its cells holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from ethoscade.lowering.feature_maps import FeatureMap, Layout
from ethoscade.lowering.npu import NpuOperation, OperationKind, Table, Upscale
from ethoscade.pipeline.compiler import Network
from ethoscade.pipeline.planning import Outline
from ethoscade.scheduling.program import (
    CallOperator,
    CopyConstants,
    CopyTensor,
    Feed,
    LoadTable,
    Program,
    ProgramBuffer,
    Slab,
    Stripe,
    Take,
)

_NOTHING = -1

Content = tuple[int, np.ndarray, np.ndarray]
"""Buffer, bytes in it, and which bytes of their tensor lie there."""


def image(operation: NpuOperation, number: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The rows and columns of an input that are no padding: of a batch those of one image, of a part those of it."""
    read, (height, width, _) = operation.compute.reads[number], operation.inputs[number].shape
    if read.origin is None:
        return (0, height), (0, width)
    (row, column), (_, rows, columns, _) = read.origin, read.extents
    return (row, row + rows), (column, column + columns)


def pixels_read(operation: NpuOperation, number: int, output: Slab, axis: int) -> tuple[set[int], int, int]:
    """Rows (axis 0) or columns (1) of an input that windows over the output box touch, one by one.

    Returns the real ones, and how many of padding lie before and behind. An upscaled input has two for each real one:
    twice that one, or it and a zero. A zero that the box begins with lies a negative number before.
    """
    window, factor, read = operation.window, operation.upscale.factor, operation.compute.reads[number]
    origin, end = image(operation, number)[axis]
    stored = end - origin
    if number > 0 and stored == 1:
        return {origin}, 0, 0
    extent = stored * factor
    start, end = (
        place - operation.ofm.corner[axis] for place in ((output.y0, output.y1), (output.x0, output.x1))[axis]
    )
    ahead = read.indices[1 + axis].constant + (window.pad_top, window.pad_left)[axis] - origin * factor
    stride = (window.stride_h, window.stride_w)[axis]
    dilation = (window.dilation_h, window.dilation_w)[axis]
    kernel = (window.kernel_h, window.kernel_w)[axis]
    before = (window.pad_top, window.pad_left)[axis] - ahead
    touched = {at * stride - before + tap * dilation for at in range(start, end) for tap in range(kernel)}
    zeros = factor if number == 0 and operation.upscale is Upscale.ZEROS else 1
    inside = {origin + at // factor for at in touched if 0 <= at < extent and at % zeros == 0}
    first = min(touched)
    return inside, -(first % zeros) if first > 0 else -first, max(0, max(touched) - extent + 1)


def check_windows(operations: Sequence[NpuOperation], program: Program) -> None:
    """Every input box is what an exhaustive loop over the windows finds, from first to last; so is the padding.

    The device counts a window's place from the first pixel of its box, and repeats pixels from there on.
    """
    for step in program.steps:
        if not isinstance(step, Stripe):
            continue
        operation = operations[step.stage]
        factor, box = operation.upscale.factor, step.output
        assert box.y0 % factor == 0 == box.x0 % factor, f"{operation.name} begins within a pixel: {step}"
        for number, slab in reversed(list(enumerate(step.inputs))):
            rows, top, bottom = pixels_read(operation, number, step.output, 0)
            columns, left, right = pixels_read(operation, number, step.output, 1)
            (above, below), (first, last) = image(operation, number)
            assert (slab.y0, slab.y1) == _box(rows, max(top, 0), bottom, (above, below)), (
                f"{operation.name}: rows {rows} from {slab}"
            )
            assert (slab.x0, slab.x1) == _box(columns, max(left, 0), right, (first, last)), (
                f"{operation.name}: columns {columns} from {slab}"
            )
        if not operation.kind.is_elementwise:
            # As the device counts from a real pixel, a zero ahead of it is padding like any other.
            assert step.padding == (abs(top), abs(left), bottom, right), f"{operation.name}: {step}"


def _box(inside: set[int], before: int, behind: int, edges: tuple[int, int]) -> tuple[int, int]:
    """First row or column and one past the last; with padding on a side, the box reaches the edge there."""
    return edges[0] if before else min(inside), edges[1] if behind else max(inside) + 1


def check_coverage(operations: Sequence[NpuOperation], program: Program) -> None:
    """Stripes cover every element of a whole tensor exactly once, and of any other at least what is read of it.

    Of an output that several operations make, one of them has no stripes only if nobody reads anything of its box.
    """
    made: dict[int, dict[int | None, np.ndarray]] = {number: {} for number in range(len(operations))}
    whole = set()
    for step in program.steps:
        if isinstance(step, Stripe):
            box = step.output
            assert 0 <= box.y0 < box.y1 and 0 <= box.x0 < box.x1, f"empty stripe {step}"
            ofm = operations[step.stage].ofm
            count = made[step.stage].setdefault(step.slice, np.zeros(ofm.shape[:2], int))
            (row, column), (height, width) = ofm.corner, ofm.shape[:2]
            y0, y1, x0, x1 = box.y0 - row, box.y1 - row, box.x0 - column, box.x1 - column
            assert 0 <= y0 < y1 <= height and 0 <= x0 < x1 <= width, f"{step} is not of its operation's box"
            count[y0:y1, x0:x1] += 1
            if program.buffers[box.buffer].kind == "tensor":
                whole.add(ofm.tensor.id)
    read = _read(operations, program)
    for number, operation in enumerate(operations):
        slices, is_wanted = made[number], read[number]
        assert set(slices) == {None} or (set(slices) == set(range(len(slices))) and (slices or not is_wanted.any())), (
            f"{operation.name} is made in slices {set(slices)}"
        )
        if operation.ofm.tensor.id in whole:
            counts = np.concatenate([count.ravel() for count in slices.values()] or [np.zeros(1, int)])
            assert (counts == 1).all(), f"{operation.name}: elements made {np.unique(counts)} times"
        assert all((count >= is_wanted).all() for count in slices.values()), f"{operation.name}: pixels are left out"


def _read(operations: Sequence[NpuOperation], program: Program) -> list[np.ndarray]:
    """For each operation the pixels of its box of which a stripe of the NPU reads some channel that it makes."""
    read = [np.zeros(operation.ofm.shape[:2], bool) for operation in operations]
    makers: dict[int, list[int]] = {}
    for number, operation in enumerate(operations):
        makers.setdefault(operation.ofm.tensor.id, []).append(number)
    for step in program.steps:
        if not isinstance(step, Stripe):
            continue
        for view, slab in zip(operations[step.stage].inputs, step.inputs, strict=True):
            for number in makers.get(view.tensor.id, []):
                ofm = operations[number].ofm
                if (*view.plane, view.pixel_channels) != (*ofm.plane, ofm.pixel_channels):
                    # Seen in another shape, it is read in whole rows, or where it lies whole.
                    rows = slice(None)
                    if _sees_rows(view, ofm):
                        rows = slice(*(max(0, at - ofm.corner[0]) for at in (slab.y0, slab.y1)))
                    read[number][rows] = True
                elif _made_or_read(view) & _made_or_read(ofm):
                    row, column = ofm.corner
                    y0, y1, x0, x1 = (max(0, at) for at in _less(slab, row, column))
                    read[number][y0:y1, x0:x1] = True
    return read


def _made_or_read(view: FeatureMap) -> set[int]:
    """The channels in memory that a view has."""
    return set(range(view.first_channel, view.first_channel + view.shape[2]))


def _less(slab: Slab, row: int, column: int) -> tuple[int, int, int, int]:
    """The slab's rows and columns, counted from a pixel."""
    return slab.y0 - row, slab.y1 - row, slab.x0 - column, slab.x1 - column


def check_contents(operations: Sequence[NpuOperation], program: Program) -> None:
    """Replay: whatever a stripe reads lies in the cells it reads, and no box wraps more often than the device can."""
    cells: dict[int, np.ndarray] = {}
    made_by = {operation.ofm.tensor.id for operation in operations}
    fed = {step.output.buffer: step.output for step in program.steps if isinstance(step, Feed)}
    for step in program.steps:
        if isinstance(step, CopyTensor) and step.source in cells:
            cells[step.buffer] = cells[step.source].copy()
        if isinstance(step, Feed):
            _hold(cells, step.output)
        if isinstance(step, Take):
            assert (_names(step.input) == cells[step.input.buffer][_cells(step.input)]).all(), (
                f"{step} finds other rows"
            )
        if not isinstance(step, Stripe):
            continue
        operation = operations[step.stage]
        for view, slab in zip(operation.inputs, step.inputs, strict=True):
            wraps = [
                _wraps(slab.y0, slab.y1, slab.origin_y, slab.rows),
                _wraps(slab.x0, slab.x1, slab.origin_x, slab.columns),
            ]
            assert sorted(wraps) in ([0, 0], [0, 1]), f"{operation.name} reads across {wraps} wraps: {slab}"
            if slab.buffer not in cells:
                # Nothing on the NPU wrote here: the caller's or a CPU operator's, hence whole.
                assert view.tensor.id not in made_by or program.buffers[slab.buffer].kind == "tensor"
                assert _in_place(view, slab), f"{operation.name}: {slab} is not {view.shape} in place"
                continue
            held = cells[slab.buffer]
            if view.strides is not None or held.shape != (slab.rows, slab.columns):
                assert view.layout is Layout.NHWC, f"{operation.name} sees bricks in another shape"
                height, width = _plane_in(program.buffers[slab.buffer], operations, view, fed.get(slab.buffer))
                sees_rows = view.strides is None and view.plane[0] == height
                if sees_rows and held.shape == (slab.rows, width):
                    # Seen with other columns than its maker's: then whole rows must be there.
                    assert (slab.columns, slab.origin_x) == (view.plane[1], 0), f"{operation.name}: {slab} of {view}"
                    rows = Slab(slab.buffer, slab.y0, slab.y1, 0, width, slab.rows, width, slab.origin_y, 0)
                    assert (_names(rows) == held[_cells(rows)]).all(), f"{operation.name}: {slab} holds other rows"
                    continue
                # Seen with other rows: then all of it must be there, and in order.
                assert _in_place(view, slab), f"{operation.name}: {slab} is not {view.shape} in place"
                assert held.shape == (height, width), f"{operation.name}: {slab} is not all of its tensor"
                assert (held == _names(Slab(slab.buffer, 0, height, 0, width, height, width))).all()
                continue
            wanted, found = _names(slab), held[_cells(slab)]
            assert (wanted == found).all(), f"{operation.name}: {slab} holds other pixels than it should"
        _hold(cells, step.output)


def _hold(cells: dict[int, np.ndarray], box: Slab) -> None:
    """Write a box, none of which lies across the end of its buffer."""
    if box.y0 == box.y1:
        return
    assert _wraps(box.y0, box.y1, box.origin_y, box.rows) == 0 == _wraps(box.x0, box.x1, box.origin_x, box.columns)
    held = cells.setdefault(box.buffer, np.full((box.rows, box.columns), _NOTHING))
    assert held.shape == (box.rows, box.columns)
    held[_cells(box)] = _names(box)


def _plane_in(
    buffer: ProgramBuffer, operations: Sequence[NpuOperation], view: FeatureMap, arrived: Slab | None
) -> tuple[int, int]:
    """Rows and columns of what a buffer holds, by its maker; `arrived` are the last rows that its caller wrote."""
    if arrived is not None:
        return arrived.y1, arrived.x1
    return next(o for o in operations if _holds(buffer, o.ofm, view)).ofm.plane


def check_lifetimes(operations: Sequence[NpuOperation], program: Program) -> None:
    """Every step finds the buffers that it touches alive, and every buffer holds what its boxes say."""
    for number, step in enumerate(program.steps):
        slabs: tuple[Slab, ...] = ()
        if isinstance(step, Stripe):
            slabs = (*step.inputs, step.output)
            touched = [slab.buffer for slab in slabs] + ([] if step.weights is None else [step.weights])
        elif isinstance(step, CopyConstants):
            touched = [step.buffer]
        elif isinstance(step, LoadTable):
            touched = []
        elif isinstance(step, CopyTensor):
            touched = [step.source, step.buffer]
        elif isinstance(step, Feed):
            touched = [step.output.buffer]
        elif isinstance(step, Take):
            touched = [step.input.buffer]
        else:
            assert isinstance(step, CallOperator)
            touched = [] if step.workspace is None else [step.workspace]
        for index in touched:
            buffer = program.buffers[index]
            assert buffer.first_step <= number < buffer.last_step, f"step {number} touches {buffer}"
        views = (*operations[step.stage].inputs, operations[step.stage].ofm) if isinstance(step, Stripe) else ()
        for slab, view in zip(slabs, views, strict=True):
            cells, size = slab.rows * slab.columns, program.buffers[slab.buffer].size_bytes
            if view.strides is None:
                assert cells and size % cells == 0, f"{slab} in {size} bytes"
            else:
                # Rows and columns that lie apart need no whole number of bytes each, but must end in the buffer.
                (rows, columns, depth), apart = view.shape, view.strides
                last = (rows - 1) * apart[0] + (columns - 1) * apart[1] + view.first_channel + depth
                assert last * view.dtype.size_bytes <= size, f"{view} in {size} bytes"


def check_placed(
    network: Network | Outline, program: Program, offsets: Mapping[int, int], pools: Sequence[int] | None = None
) -> None:
    """Replay byte by byte in the arena: every reader finds what was meant for it, and the outputs are there in the end.

    `pools` says in which memory each buffer lies, if not all in the same. Bytes are touched while their buffer's
    windows say that they are live, and nobody else's bytes lie on live ones.
    """
    graph, operations = network.graph, network.npu.operations
    largest = max(o + program.buffers[b].size_bytes for b, o in offsets.items())
    if pools is not None:
        # One memory behind the other.
        offsets = {buffer: pools[buffer] * largest + offset for buffer, offset in offsets.items()}
    arena = np.full(largest * (1 + max(pools or [0])), _NOTHING)

    def whole(tensor: int) -> Content:
        size = graph.tensors[tensor].size_bytes
        return program.tensor_buffers[tensor], np.arange(size), np.arange(size)

    def locate(content: Content) -> tuple[np.ndarray, np.ndarray]:
        """Places in the arena and the names that belong there."""
        buffer, places, names = content
        return offsets[buffer] + places, names + (buffer << 40)

    def use(step: int, content: Content) -> tuple[np.ndarray, np.ndarray]:
        """The same, of bytes that are live."""
        buffer, places, _ = content
        low, high = _live(program.buffers[buffer], step)
        assert low <= places.min() and places.max() < high, (
            f"step {step} touches dead bytes of {program.buffers[buffer]}"
        )
        return locate(content)

    def write(step: int, content: Content) -> np.ndarray:
        places, names = use(step, content)
        arena[places] = names
        return places

    def read(step: int, content: Content) -> np.ndarray:
        places, names = use(step, content)
        assert (arena[places] == names).all(), f"step {step} reads bytes that are not (or no longer) in place"
        return places

    def is_over_its_input(step: int, operator: int) -> bool:
        """Whether a conversion between float32 and 8 bits may write over its input: one of the two is not live."""
        op = graph.operators[operator]
        tensors = [op.input(0), op.outputs[0]]
        if {graph.tensors[t].dtype.size_bytes for t in tensors} != {1, 4} or "QUANTIZE" not in op.kind:
            return False
        buffers = [program.buffers[program.tensor_buffers[tensor]] for tensor in tensors]
        return any(_live(buffer, step) == (0, 0) for buffer in buffers)

    def convert(step: int, operator: int) -> None:
        """From front to back, value by value; of the two tensors the larger one is live at this step."""
        op = graph.operators[operator]
        source, target = whole(op.input(0)), whole(op.outputs[0])
        use(step, max(source, target, key=lambda content: len(content[1])))
        count = math.prod(graph.tensors[op.input(0)].shape)
        split = [[np.split(part, count) for part in content[1:]] for content in (source, target)]
        for (read_from, meant), (write_to, made) in zip(*(zip(*parts, strict=True) for parts in split), strict=True):
            assert (arena[offsets[source[0]] + read_from] == meant + (source[0] << 40)).all(), (
                f"step {step} has overwritten what it is to read"
            )
            arena[offsets[target[0]] + write_to] = made + (target[0] << 40)

    def is_handed_over(step: int, content: Content) -> bool:
        """Whether all of an operand is read for the last time, and its bytes may be the results'."""
        buffer = program.buffers[content[0]]
        is_last = buffer.last_step == step + 1 and len(content[1]) == buffer.size_bytes
        return is_last and _live(buffer, step) == (0, 0)

    fed = {step.tensor for step in program.steps if isinstance(step, Feed)}
    for tensor in graph.inputs:
        if tensor in program.tensor_buffers and tensor not in fed:
            places, names = locate(whole(tensor))
            arena[places] = names
    streaming = network.target.streaming if isinstance(network, Network) else None
    is_ahead = streaming is not None and streaming.is_ahead
    arriving: Content | None = None
    for number, step in enumerate(program.steps):
        if isinstance(step, CopyConstants):
            size = program.buffers[step.buffer].size_bytes
            write(number, (step.buffer, np.arange(size), np.full(size, _constants(step))))
        elif isinstance(step, LoadTable):
            continue
        elif isinstance(step, Feed):
            if arriving is not None:
                # They came at the last moment, and nobody wrote there meanwhile.
                places, _ = use(number, arriving)
                assert (arena[places] == _NOTHING).all(), f"step {number - 1} writes where rows arrive"
                write(number, arriving)
            rows = _rows_of(program.buffers[step.output.buffer], step.output)
            arriving = rows if is_ahead and len(rows[1]) else None
            if arriving is not None:
                arena[use(number, arriving)[0]] = _NOTHING
            elif len(rows[1]):
                write(number, rows)
        elif isinstance(step, Take):
            read(number, _rows_of(program.buffers[step.input.buffer], step.input))
        elif isinstance(step, CopyTensor):
            size = program.buffers[step.source].size_bytes
            source, _ = use(number, (step.source, np.arange(size), np.arange(size)))
            assert (arena[source] >> 40 == step.source).all(), f"step {number} copies bytes that are not in place"
            write(number, (step.buffer, np.arange(size), arena[source] - (step.source << 40)))
        elif isinstance(step, CallOperator) and is_over_its_input(number, step.operator):
            convert(number, step.operator)
        elif isinstance(step, CallOperator):
            op = graph.operators[step.operator]
            for tensor in op.inputs:
                if tensor is not None and graph.tensors[tensor].data is None:
                    read(number, whole(tensor))
            if step.workspace is not None:
                size = program.buffers[step.workspace].size_bytes
                write(number, (step.workspace, np.arange(size), np.zeros(size, int)))
            for tensor in op.outputs:
                write(number, whole(tensor))
        else:
            operation = operations[step.stage]
            sources = []
            for view, slab in zip(operation.inputs, step.inputs, strict=True):
                content = _bytes(view, slab)
                over = _keeps_elements(operation, view) and is_handed_over(number, content)
                places, names = locate(content) if over else use(number, content)
                assert (arena[places] == names).all(), f"step {number} reads bytes that are not (or no longer) in place"
                sources.append((view, places))
            if step.weights is not None:
                size = program.buffers[step.weights].size_bytes
                read(number, (step.weights, np.arange(size), np.full(size, _constants(step))))
            made = write(number, _bytes(operation.ofm, step.output, _channels(network, step)))
            for view, source in sources:
                is_exact = _keeps_elements(operation, view) and np.array_equal(made, source)
                assert is_exact or not np.isin(made, source).any(), f"step {number} writes what it reads"
    taken = [step for step in program.steps if isinstance(step, Take)]
    rows = [row for step in taken for row in range(step.input.y0, step.input.y1)]
    assert rows == list(range(len(rows))), "rows are taken in order"
    for tensor in graph.outputs:
        if tensor in {step.tensor for step in taken}:
            row_bytes = program.buffers[taken[0].input.buffer].size_bytes // taken[0].input.rows
            assert len(rows) * row_bytes == graph.tensors[tensor].size_bytes, "and all of them"
        elif graph.tensors[tensor].data is None:
            read(len(program.steps) - 1, whole(tensor))


def _rows_of(buffer: ProgramBuffer, box: Slab) -> Content:
    """Whole rows in their buffer."""
    row_bytes = buffer.size_bytes // box.rows
    rows = np.arange(box.y0, box.y1)[:, None]
    within = np.arange(row_bytes)
    places, names = (rows - box.origin_y) % box.rows * row_bytes + within, rows * row_bytes + within
    return box.buffer, places.ravel(), names.ravel()


def _keeps_elements(operation: NpuOperation, view: FeatureMap) -> bool:
    """Whether each result is made of one element of an operand, of as many bits."""
    window, is_pool = operation.window, operation.kind in (OperationKind.AVERAGE_POOL, OperationKind.MAX_POOL)
    extents = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w, operation.upscale.factor)
    is_single = operation.kind.is_elementwise or (is_pool and extents == (1, 1, 1, 1, 1))
    return is_single and view.dtype.size_bytes == operation.ofm.dtype.size_bytes


def _live(buffer: ProgramBuffer, step: int) -> tuple[int, int]:
    """The buffer's live bytes at a step."""
    if not buffer.first_step <= step < buffer.last_step:
        return 0, 0
    for window in buffer.windows:
        if window.first_step <= step < window.last_step:
            return window.low, window.high
    return 0, buffer.size_bytes


def _constants(step: Stripe | CopyConstants) -> int:
    """A number for the constants of a step."""
    return step.stage * 4096 + (0 if step.slice is None else 1 + step.slice)


def _channels(network: Network | Outline, step: Stripe) -> range | None:
    """Output channels that a stripe makes, None for all that its operation makes."""
    if step.slice is None:
        return None
    assert isinstance(network, Network), "described devices encode no slices"
    part = network.encoded[step.stage].slices[step.slice]
    return range(part.first_channel, part.first_channel + part.channels)


def _bytes(view: FeatureMap, slab: Slab, channels: range | None = None) -> Content:
    """Where the bytes of a box lie in their buffer, and which bytes of the whole feature map they are."""
    depth, size = view.pixel_channels, view.dtype.size_bytes
    if view.strides is not None:
        # Counted in the order of the tensor, which lies whole.
        rows, columns = np.arange(slab.y0, slab.y1)[:, None, None], np.arange(slab.x0, slab.x1)[None, :, None]
        elements = rows * view.strides[0] + columns * view.strides[1] + np.arange(view.shape[2]) + view.first_channel
        box = (elements[..., None] * size + np.arange(size)).ravel()
        assert box.max() < math.prod(view.tensor.shape) * size, f"{slab} reaches beyond its tensor"
        return slab.buffer, box, box
    made = range(view.first_channel, view.first_channel + view.shape[2]) if channels is None else channels
    pixel = np.arange(made.start * size, made.stop * size)
    rows, columns = (np.arange(slab.y0, slab.y1)[:, None, None], np.arange(slab.x0, slab.x1)[None, :, None])
    row, column = (rows - slab.origin_y) % slab.rows, (columns - slab.origin_x) % slab.columns
    if view.layout is Layout.NHWC:
        places = (row * slab.columns + column) * depth * size + pixel
    else:
        brick, within = np.divmod(pixel, 16 * size)
        places = ((row * (depth // 16) + brick) * slab.columns + column) * 16 * size + within
    names = (rows * view.plane[1] + columns) * depth * size + pixel
    return slab.buffer, places.ravel(), names.ravel()


def check_tables(operations: Sequence[NpuOperation], program: Program) -> None:
    """Whoever looks up finds its table loaded, and not another one over it; every NPU run begins with none."""
    held: dict[int, Table] = {}
    for step in program.steps:
        if isinstance(step, CallOperator | Feed | Take):
            held = {}
        elif isinstance(step, LoadTable):
            table = operations[step.stage].function
            assert isinstance(table, Table)
            slots = range(step.slot, step.slot + table.size_bytes // 256)
            assert slots.stop <= 8 and step.slot % len(slots) == 0, f"{step} for {table.size_bytes} bytes"
            held |= dict.fromkeys(slots, table)
        elif isinstance(step, Stripe):
            table = operations[step.stage].function
            if isinstance(table, Table):
                found = sum(held.get(slot) == table for slot in range(8))
                assert found >= table.size_bytes // 256, f"{operations[step.stage].name} has no table at {step}"


def check_program(operations: Sequence[NpuOperation], program: Program) -> None:
    """All of the above."""
    check_windows(operations, program)
    check_coverage(operations, program)
    check_contents(operations, program)
    check_lifetimes(operations, program)
    check_tables(operations, program)


def _holds(buffer: ProgramBuffer, made: FeatureMap, view: FeatureMap) -> bool:
    """Whether what an operation makes is in the buffer that a view looks at; state may lie in that of its old value."""
    return made.tensor.id == view.tensor.id or (buffer.tensor is not None and made.tensor.graph_tensor == buffer.tensor)


def _sees_rows(view: FeatureMap, made: FeatureMap) -> bool:
    """Whether a view has the rows of what an operation makes, whatever its columns."""
    return view.strides is None and view.plane[0] == made.plane[0]


def _in_place(view: FeatureMap, slab: Slab) -> bool:
    """Whether the buffer is laid out as the whole feature map, from its first pixel on."""
    return (slab.rows, slab.columns, slab.origin_y, slab.origin_x) == (*view.shape[:2], 0, 0)


def _wraps(start: int, end: int, origin: int, capacity: int) -> int:
    return (end - 1 - origin) // capacity - (start - origin) // capacity


def _cells(slab: Slab) -> tuple[np.ndarray, np.ndarray]:
    rows = (np.arange(slab.y0, slab.y1) - slab.origin_y) % slab.rows
    columns = (np.arange(slab.x0, slab.x1) - slab.origin_x) % slab.columns
    return np.ix_(rows, columns)


def _names(slab: Slab) -> np.ndarray:
    """A number for every pixel of the feature map."""
    return np.arange(slab.y0, slab.y1)[:, None] * (1 << 20) + np.arange(slab.x0, slab.x1)[None, :]
