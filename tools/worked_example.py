"""Write docs/worked-example.md and its drawings: three layers on eight rows, from what the package says.

Owns the example's figures. The prose is `tools/worked-example.md`, where `{{name}}` stands for one of `figures`.
    python tools/worked_example.py
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import ethoscade
from drawing import Drawing
from ethoscade import _core
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation
from ethoscade.pipeline.compiler import prepare
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.program import Arrangement, CopyConstants, ProgramBuffer, Step, Stripe
from ethoscade.scheduling.schedule import (
    CacheRead,
    ComputeAt,
    Group,
    RollingBuffer,
    Schedule,
    Split,
    uncascaded,
)
from ethoscade.targets.target import compilation_target
from ethoscade.testing import ModelBuilder

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = Path(__file__).with_name("worked-example.md")
LAYERS = ("expand", "filter", "project")
EXTENTS = (1, 2, 3, 4, 5, 6, 8)
"""Heights of stripes that the search tries on eight rows."""
FLOOR, STAGED = (1, 1, 1), (2, 1, 1)
"""Stripes of the Plans that the page follows: the leanest, and one whose `project` reads its constants from SRAM."""
COLOURS = {"input": "blue", "expand": "orange", "filter": "green", "project": "purple", "constants": "red"}


def model() -> bytes:
    """The network of the page, as it says how to build it."""
    builder = ModelBuilder(name="three_layers", seed=1)
    x = builder.input((1, 8, 8, 8), name="input")
    x = builder.conv2d(x, 32, 1, activation=Activation.RELU, name="expand")
    x = builder.depthwise(x, 3, activation=Activation.RELU, name="filter")
    builder.conv2d(x, 8, 1, name="project")
    return builder.build()


def group(first: int, last: int, stripes: Sequence[int], staged: Sequence[int] = ()) -> Group:
    """The decisions for Parts `first..=last`: stripes of each, rolling buffers between them, constants copied."""
    decisions: list[scheduling.Decision] = []
    for part, extent in zip(range(first, last + 1), stripes, strict=True):
        decisions.append(Split(part, "height", extent))
        if part < last:
            decisions += [ComputeAt(part, last, "height"), RollingBuffer(part, "height")]
        if part in staged:
            decisions.append(CacheRead(part))
    return Group(first, last, tuple(decisions))


def one_group(stripes: Sequence[int], staged: Sequence[int] = ()) -> Schedule:
    """All three layers interleaved."""
    return Schedule((group(0, 2, stripes, staged),))


def owner(problem: Problem, buffer: ProgramBuffer) -> str:
    """The layer whose rows a buffer holds, "input", or "constants"."""
    if buffer.kind == "weights":
        return "constants"
    dense = problem.ids[buffer.tensor] if buffer.tensor is not None else 0
    return problem.tensors[dense].name


def layer(step: Step) -> str:
    """The layer that a step works for."""
    assert isinstance(step, Stripe | CopyConstants)
    return LAYERS[step.stage]


def stripes_sum(arranged: Arrangement) -> int:
    """Cycles of all steps, one after the other."""
    return sum(step.cycles for step in arranged.program.steps)


def rows_of(first: int, end: int) -> str:
    """Rows [first, end) in words."""
    return str(first) if end == first + 1 else f"{first} to {end - 1}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """A Markdown table; its first `left` columns are text, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in [head, rule, *rows])


def matrix(rows: Sequence[Sequence[int]], name: str) -> str:
    """A matrix as text."""
    lines = ["[" + " ".join(f"{value:3d}" for value in row) + " ]" for row in rows]
    return "\n".join((f"{name} = " if at == 0 else " " * (len(name) + 3)) + line for at, line in enumerate(lines))


class Example:
    """The network, and what the package says of it on the target of the page."""

    def __init__(self) -> None:
        self.model = model()
        self.target = compilation_target("ethos-u55-256", None, None, None)
        self.network = prepare(read_tflite(self.model), self.target)
        self.problem = self.network.problem

    def arrange(self, schedule: Schedule) -> Arrangement:
        return scheduling.arrange(self.problem, schedule)

    def point(self, schedule: Schedule) -> tuple[int, int]:
        """Bytes of the arena and played cycles."""
        return self.arrange(schedule).arena_bytes, scheduling.cycles_of(self.problem, schedule)

    def live(self, arranged: Arrangement, step: int) -> dict[str, int]:
        """Bytes in use at a step, by owner."""
        found = dict.fromkeys(COLOURS, 0)
        for buffer in arranged.program.buffers:
            found[owner(self.problem, buffer)] += buffer.live_bytes(step)
        return found


def layers_table(example: Example) -> str:
    rows = []
    for spec in example.problem.specs:
        kernel = spec.kernel
        assert kernel is not None
        before, after = (example.problem.tensors[t] for t in (spec.inputs[0].tensor, spec.outputs[0]))
        shapes = [f"{t.plane[0]} x {t.plane[1]} x {t.pixel_bytes}" for t in (before, after)]
        size = f"{kernel.kernel[0]} x {kernel.kernel[1]} {kernel.kind}"
        row_bytes = after.plane[1] * after.pixel_bytes
        rows.append([f"`{spec.name}`", size, *shapes, row_bytes, f"{8 * row_bytes:,}", kernel.constant_bytes])
    head = ["layer", "kernel", "input", "output", "bytes of an output row", "of eight rows", "of constants"]
    return table(head, rows, 4)


def needs_table(example: Example) -> str:
    """Rows that one output row needs, layer by layer, as the core's `propagate` says."""
    rows = []
    for y in (0, 3, 7):
        span, cells = (y, y + 1), [y]
        for spec in reversed(example.problem.specs):
            read = spec.inputs[0].propagator
            shape, start = _core.propagate(read, (1, span[1] - span[0], 8, 8), (0, span[0], 0, 0))
            span = (max(0, start[1]), min(8, start[1] + shape[1]))
            cells.append(rows_of(*span))
        rows.append(cells)
    return table(["row of the output", "needs of `filter`", "of `expand`", "of the input"], rows)


def steps_table(example: Example, arranged: Arrangement, first: int, end: int) -> str:
    """What steps make and read, what the rolling buffer of `expand` holds, and what is in use."""
    slots: list[str] = []
    rows = []
    for number, step in enumerate(arranged.program.steps[:end]):
        assert isinstance(step, Stripe)
        made, read = step.output, step.inputs[0]
        if layer(step) == "expand":
            slots = slots or ["-"] * made.rows
            for y in range(made.y0, made.y1):
                slots[y % made.rows] = str(y)
        live = example.live(arranged, number)
        named = [live[name] for name in ("input", "expand", "filter", "project")]
        if number >= first:
            cells = [number, f"`{layer(step)}`", rows_of(made.y0, made.y1), rows_of(read.y0, read.y1)]
            rows.append([*cells, " ".join(slots), *named, f"{sum(live.values()):,}"])
    head = ["step", "layer", "makes row", "reads rows", "slots of `expand`", "input", "`expand`", "`filter`", "output"]
    return table([*head, "in use"], rows, 5)


def enumerated(example: Example) -> dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]]:
    """Points of every way to group the layers and to cut them, constants in place, by (sizes of groups, stripes)."""
    found = {}
    for sizes in ((3,), (1, 2), (2, 1), (1, 1, 1)):
        ends = list(itertools.accumulate(sizes))
        for stripes in itertools.product(EXTENTS, repeat=3):
            groups = [group(e - n, e - 1, stripes[e - n : e]) for n, e in zip(sizes, ends, strict=True)]
            found[sizes, stripes] = example.point(Schedule(tuple(groups)))
    return found


def front(points: Mapping[object, tuple[int, int]]) -> list[tuple[int, int]]:
    """The points that none takes fewer bytes than, or as few, without taking more cycles."""
    kept: list[tuple[int, int]] = []
    for bytes_, cycles in sorted(set(points.values())):
        if not kept or cycles < kept[-1][1]:
            kept.append((bytes_, cycles))
    return kept


def plans_table(example: Example) -> str:
    """Some Plans for all three layers."""
    chosen = [FLOOR, (2, 1, 1), (1, 2, 1), (2, 1, 2), (2, 2, 2), (5, 2, 2), (8, 8, 8)]
    points = {stripes: example.point(one_group(stripes)) for stripes in chosen}
    rows = []
    for stripes, (bytes_, cycles) in points.items():
        arranged = example.arrange(one_group(stripes))
        held = {owner(example.problem, b): b.size_bytes for b in arranged.program.buffers}
        beaten = next((s for s, (b, c) in points.items() if s != stripes and b <= bytes_ and c <= cycles), None)
        verdict = "" if beaten is None else "beaten by " + ", ".join(map(str, beaten))
        sizes = [f"{held[name] // 256}" for name in ("expand", "filter")]
        total = stripes_sum(arranged)
        rows.append([", ".join(map(str, stripes)), *sizes, f"{bytes_:,}", f"{total:,}", f"{cycles:,}", verdict])
    head = ["rows at a time", "rows kept of `expand`", "of `filter`", "bytes", "sum of stripes", "cycles", ""]
    return table(head, rows)


def plan_text(plan: _core.Plan) -> str:
    """Layers of a Plan, with the rows that each makes at a time."""
    parts = zip(LAYERS[plan.first : plan.last + 1], plan.stripes, plan.staging, strict=True)
    return " + ".join(f"`{name}` {n}" + ("" if s == "in_place" else " (copied)") for name, n, s in parts)


def front_table(example: Example, proposals: Sequence[_core.Proposal]) -> str:
    rows = [[f"{p.sram_bytes:,}", f"{p.cycles:,}", ", then ".join(map(plan_text, p.plans))] for p in proposals]
    lines = table(["bytes", "cycles", "Plans, with the rows that each layer makes at a time"], rows, 0).splitlines()
    return "\n".join([lines[0], "| ---: | ---: | --- |", *lines[2:]])


def group_peaks(example: Example, schedule: Schedule) -> list[tuple[int, int]]:
    """For each group of a schedule, the most bytes in use while it runs and the sum of its stripes' cycles."""
    arranged = example.arrange(schedule)
    found = []
    for of in schedule.groups:
        names = LAYERS[of.first : of.last + 1]
        steps = [n for n, step in enumerate(arranged.program.steps) if layer(step) in names]
        peak = max(sum(example.live(arranged, n).values()) for n in steps)
        found.append((peak, sum(arranged.program.steps[n].cycles for n in steps)))
    return found


def written_rows(arranged: Arrangement, step: Step) -> list[tuple[int, float]]:
    """Rows that a step writes, each with the byte of the arena at its middle."""
    if not isinstance(step, Stripe):
        return []
    made = step.output
    row_bytes = arranged.program.buffers[made.buffer].size_bytes / made.rows
    offset = arranged.offsets[made.buffer]
    return [(y, offset + (y % made.rows + 0.5) * row_bytes) for y in range(made.y0, made.y1)]


def arena_drawing(example: Example, arranged: Arrangement, title: str) -> str:
    """Addresses upwards, steps to the right: what lies where, and until when."""
    left, top, step_width, height = 66, 58, 27, 330
    steps, size = len(arranged.program.steps), arranged.arena_bytes
    scale = height / size
    drawing = Drawing(left + steps * step_width + 20, top + height + 46, title)
    drawing.write(left, 20, title, size=14, bold=True)
    at = left
    for name in [n for n in COLOURS if any(owner(example.problem, b) == n for b in arranged.program.buffers)]:
        drawing.box(at, 31, 11, 11, COLOURS[name], round_by=2)
        drawing.write(at + 16, 41, name, colour="dim")
        at += 34 + 7.2 * len(name)
    drawing.box(left, top, steps * step_width, height, "grey")
    for buffer, offset in zip(arranged.program.buffers, arranged.offsets, strict=True):
        name = owner(example.problem, buffer)
        spans = [(w.first_step, w.last_step, w.low, w.high) for w in buffer.windows]
        for first, end, low, high in spans or [(buffer.first_step, buffer.last_step, 0, buffer.size_bytes)]:
            if low < high:
                y = top + height - (offset + high) * scale
                tip = f"{name}: bytes {offset + low} to {offset + high - 1} in steps {rows_of(first, end)}"
                width = (end - first) * step_width
                drawing.box(left + first * step_width, y, width, (high - low) * scale, COLOURS[name], tip=tip)
    named = float("inf")
    for byte in sorted({0, size, *arranged.offsets}):
        y = top + height - byte * scale
        drawing.outline([(left, y), (left + steps * step_width, y)], "rule", dashed=byte not in (0, size))
        if named - y >= 12:
            drawing.write(left - 8, y + 4, f"{byte:,}", size=11, colour="dim", anchor="end")
            named = y
    for number, step in enumerate(arranged.program.steps):
        x = left + (number + 0.5) * step_width
        if number:
            drawing.outline([(x - step_width / 2, top), (x - step_width / 2, top + height)], "rule")
        drawing.write(x, top + height + 16, layer(step)[0].upper() if isinstance(step, Stripe) else "copy",
                      size=11, colour="dim", anchor="middle")  # fmt: skip
        for y, byte in written_rows(arranged, step):
            drawing.write(x, top + height - byte * scale + 3.5, str(y), size=10, anchor="middle")
    words = "steps: E, F and P run expand, filter and project; a number is the row that the step writes there"
    drawing.write(left, top + height + 36, words, size=11, colour="dim")
    return drawing.text()


def lives(arranged: Arrangement) -> dict[tuple[str, int], tuple[int, int]]:
    """For each row of each layer and the input, the step that makes it and one past the last that reads it."""
    found = {("input", y): (0, 0) for y in range(8)}
    before = {"expand": "input", "filter": "expand", "project": "filter"}
    for number, step in enumerate(arranged.program.steps):
        assert isinstance(step, Stripe)
        read = step.inputs[0]
        for y in range(read.y0, read.y1):
            found[before[layer(step)], y] = (found[before[layer(step)], y][0], number + 1)
        for y in range(step.output.y0, step.output.y1):
            found[layer(step), y] = (number, len(arranged.program.steps))
    return found


def order_drawing(arranged: Arrangement) -> str:
    """Rows downwards, steps to the right: when each row is made, and how long somebody wants it."""
    left, top, step_width, row_height, gap = 96, 44, 27, 12, 14
    names = ("input", *LAYERS)
    steps = len(arranged.program.steps)
    title = "From the step that makes a row to the last that reads it"
    drawing = Drawing(left + steps * step_width + 20, top + 4 * (8 * row_height + gap) + 26, title)
    drawing.write(left, 20, title, size=14, bold=True)
    ends = lives(arranged)
    for lane, name in enumerate(names):
        y0 = top + lane * (8 * row_height + gap)
        drawing.box(left, y0, steps * step_width, 8 * row_height, "grey")
        drawing.write(left - 26, y0 + 4 * row_height + 4, name, anchor="end", bold=True)
        for y in range(8):
            first, end = ends[name, y]
            at = y0 + y * row_height
            drawing.write(left - 8, at + row_height - 2.5, str(y), size=9.5, colour="dim", anchor="end")
            span = (left + first * step_width, (end - first) * step_width)
            drawing.box(span[0], at + 1, span[1], row_height - 2, COLOURS[name], round_by=3)
            if name != "input":
                drawing.box(span[0] + step_width / 2 - 3, at + row_height / 2 - 3, 6, 6, "ink", round_by=3)
        for number in range(1, steps):
            x = left + number * step_width
            drawing.outline([(x, y0), (x, y0 + 8 * row_height)], "rule")
    for number in range(steps):
        x, y = left + (number + 0.5) * step_width, top + 4 * (8 * row_height + gap) + 2
        drawing.write(x, y, str(number), size=11, colour="dim", anchor="middle")
    drawing.write(left, y + 19, "step; the dot marks the one that makes the row", size=11, colour="dim")
    return drawing.text()


def figures(example: Example) -> dict[str, str]:
    """What stands for each name in the prose."""
    floor = example.arrange(one_group(FLOOR))
    staged = example.arrange(one_group(STAGED, [2]))
    timing = ethoscade.compile(example.model, sram=floor.arena_bytes).timing()[0][1]
    flash = timing.memories["OffChipFlash"]
    proposals = scheduling.search(example.problem, 0).proposals
    found = [(p.sram_bytes, p.cycles) for p in proposals]
    points = enumerated(example)
    by_hand = front(points)
    copied = {(p.sram_bytes, p.cycles) for p in proposals if any("whole" in plan.staging for plan in p.plans)}
    missed = [point for point in by_hand if point not in found]
    assert set(found) - copied <= set(by_hand) and len(missed) == 1, "the page explains one point and no other"
    near = max(p for p in found if p[0] < missed[0][0])
    sums = {p: stripes_sum(example.arrange(one_group(s))) for (n, s), p in points.items() if n == (3,)}
    assert sums[missed[0]] == sums[near], "equal as sums, so that only one of them stays"
    pair = next(p for p in proposals if len(p.plans) == 2)
    peaks = group_peaks(example, scheduling.from_proposal(example.problem, pair))
    in_place = example.point(one_group(STAGED))
    by_layer = {layer(step): step.cycles for step in floor.program.steps}
    project = [step.cycles for step in staged.program.steps if layer(step) == "project"]
    read = example.problem.specs[1].inputs[0].propagator
    whole = example.point(uncascaded(example.problem))
    n = {
        "whole_bytes": whole[0], "whole_cycles": whole[1], "floor_bytes": floor.arena_bytes,
        "floor_cycles": scheduling.cycles_of(example.problem, one_group(FLOOR)), "floor_sum": stripes_sum(floor),
        "words": flash.command_bytes // 4, "word_bytes": flash.command_bytes, "flash_bytes": flash.busy_cycles,
        "referee": timing.cycles, "e": by_layer["expand"], "f": by_layer["filter"], "p": by_layer["project"],
        "considered": len(points), "by_hand": len(by_hand), "missed_bytes": missed[0][0],
        "missed_cycles": missed[0][1], "near_bytes": near[0], "near_cycles": near[1], "near_sum": sums[near],
        "pair_bytes": pair.sram_bytes, "pair_first": peaks[0][0], "pair_second": peaks[1][0],
        "pair_first_cycles": peaks[0][1], "pair_second_cycles": peaks[1][1], "pair_sum": peaks[0][1] + peaks[1][1],
        "pair_cycles": pair.cycles, "in_place_bytes": in_place[0], "in_place_cycles": in_place[1],
        "copy": project[0], "p_staged": project[1], "staged_sum": sum(project), "p_eight": 8 * by_layer["project"],
        "staged_bytes": staged.arena_bytes,
        "staged_cycles": scheduling.cycles_of(example.problem, one_group(STAGED, [2])),
        "staged_constants": staged.arena_bytes - in_place[0],
    }  # fmt: skip
    text = {name: f"{value:,}" for name, value in n.items()}
    return text | {
        "floor_plain": str(n["floor_bytes"]),
        "floor_cycles_plain": str(n["floor_cycles"]),
        "layers": layers_table(example),
        "transform": matrix(read.transform, "T"),
        "strides": matrix(read.strides, "S"),
        "offset": ", ".join(map(str, read.offset)),
        "needs": needs_table(example),
        "steps": steps_table(example, floor, 0, 12),
        "last_steps": steps_table(example, floor, 19, 24),
        "plans": plans_table(example),
        "front": front_table(example, proposals),
    }


def written() -> dict[Path, str]:
    """What the files of the example hold, by path."""
    example = Example()
    known = figures(example)
    prose = TEMPLATE.read_text(encoding="utf-8")
    used = set(re.findall(r"{{(\w+)}}", prose))
    assert used == set(known), f"the prose and the figures differ: {sorted(used ^ set(known))}"
    page = re.sub(r"{{(\w+)}}", lambda match: known[match[1]], prose)
    floor, staged = example.arrange(one_group(FLOOR)), example.arrange(one_group(STAGED, [2]))
    docs = ROOT / "docs"
    return {
        docs / "worked-example.md": page,
        docs / "worked-example-order.svg": order_drawing(floor),
        docs / "worked-example-arena.svg": arena_drawing(
            example, floor, f"One row at a time: {floor.arena_bytes:,} bytes"
        ),
        docs / "worked-example-copy.svg": arena_drawing(
            example, staged, f"With the constants of project copied: {staged.arena_bytes:,} bytes"
        ),
    }


def main() -> int:
    """Write the files."""
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
