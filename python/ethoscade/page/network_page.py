"""The page of a compiled network: which chapters it has, and their words.

Owns the contents and their order. All figures come from the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from .facts import ArenaMap, Choice, HolderKind, NetworkFacts, OperatorNode, What
from .parts import Chapter, Chart, Column, Grid, Page, Part, Tile, Tiles, Words

KINDS: dict[HolderKind, str] = {
    "input": "c4",
    "output": "c5",
    "state": "c8",
    "intermediate": "c1",
    "rolling": "c2",
    "weights": "c3",
    "workspace": "c6",
}
"""The colours of what bytes of the arena are for, by their names in the style sheet."""

KIND_NAMES: dict[HolderKind, str] = {"rolling": "rolling buffer", "weights": "staged weights", "workspace": "workspace"}
"""Kinds whose word alone does not say it."""

# The order of bars' parts; memories follow in their own order.
_BOUNDS = {"compute": "c4", "output": "c5", "latency": "c8", "waiting": "c7"}
_BOUND_NAMES = {
    "compute": "MAC engine",
    "output": "output stage",
    "waiting": "waiting (copies, start-up)",
    "Sram": "SRAM",
    "OnChipFlash": "flash",
    "OffChipFlash": "flash",
    "Dram": "DRAM",
}
_MEMORY_COLOURS = ("c2", "c3", "c6")
_MOST_ALIVE = 8
_MAP_WORDS = (
    "Every rectangle is bytes that are in use: up the address, to the right time. Inputs die row by row where an "
    "output grows over them; what is empty is free for others."
)
_CYCLES_WORDS = (
    "Time per layer, coloured by the bottleneck. The longest bar is where a change of the network gains most. "
    "Memory-bound layers: reduce tensor size, not MACs."
)
_NETWORK_WORDS = (
    "In execution order; lines are tensors. Circles run on the NPU, squares on the CPU with the reason. What is "
    "tinted runs interleaved, stripe by stripe, as a cascade."
)


def network_page(facts: NetworkFacts) -> Page:
    """The page; `document.render` writes it."""
    return Page(
        title=facts.name,
        subtitle=facts.target,
        chapters=(
            Chapter("glance", "At a glance", (Tiles(glance(facts)), *_peak(facts))),
            Chapter("arena", "SRAM map", tuple(_arena(facts))),
            Chapter("frontier", "Frontier", tuple(_frontier(facts))),
            Chapter("cycles", "Cycles", tuple(_cycles(facts))),
            Chapter("network", "Network", tuple(_network(facts))),
            Chapter("tables", "Tables", tuple(_tables(facts))),
        ),
        footer=f"Made by ethoscade {facts.version}. Cycles are the timing model's, of the NPU alone.",
    )


def size(size_bytes: int) -> str:
    """Bytes in KiB to a tenth, in MiB from ten of these on."""
    return f"{size_bytes / 1024:,.1f} KiB" if size_bytes < 10 << 20 else f"{size_bytes / (1 << 20):,.1f} MiB"


def glance(facts: NetworkFacts) -> tuple[Tile, ...]:
    """The figures that say whether it fits, how long it takes, and what runs where."""
    fits = facts.budget_bytes is None or facts.sram_bytes <= facts.budget_bytes
    if facts.budget_bytes is None:
        spare = f"{facts.sram_bytes:,} bytes; no budget"
    else:
        spare = f"of {size(facts.budget_bytes)}, {facts.budget_bytes - facts.sram_bytes:,} bytes to spare"
    on_cpu = [node for node in facts.nodes if node.where == "cpu"]
    macs = sum(node.macs for node in facts.nodes) or 1
    share = f"{len(on_cpu)} on the CPU, {100 * sum(node.macs for node in on_cpu) / macs:.1f} % of the MACs"
    cascades = len({node.cascade for node in facts.nodes if node.cascade})
    uncounted = f", {_all_on_cpu(facts, on_cpu)}" if on_cpu else ""
    time = (
        Tile("Time on the NPU", f"{facts.milliseconds:,.3f} ms", f"{facts.inferences_per_second:,.1f}/s{uncounted}"),
        Tile("Cycles", f"{facts.cycles:,}", f"{100 * facts.utilisation:.1f} % of the MACs that it could do"),
    )
    return (
        Tile("SRAM", size(facts.sram_bytes), spare, "good" if fits else "bad"),
        *(time if facts.counted else (Tile("Time", "not counted", "there is no NPU"),)),
        Tile("Flash", size(facts.flash_bytes), f"{facts.flash_bytes:,} bytes"),
        Tile("Operators on the NPU", f"{len(facts.nodes) - len(on_cpu)} of {len(facts.nodes)}", share),
        Tile("Cascades", f"{cascades}", "groups that run stripe by stripe"),
    )


def _all_on_cpu(facts: NetworkFacts, nodes: Sequence[OperatorNode]) -> str:
    """The time of all operators on the CPU, and how many of them are not counted."""
    known = [node.cpu_milliseconds for node in nodes if node.cpu_milliseconds is not None]
    if not known:
        return "the CPU's not counted"
    left = f", {len(nodes) - len(known)} not counted" if len(known) < len(nodes) else ""
    return f"CPU about {sum(a for a, _ in known):,.3f} to {sum(b for _, b in known):,.3f} ms on {facts.core}{left}"


def _on_cpu(node: OperatorNode) -> str:
    """The time of an operator on the CPU, or "not counted"."""
    if node.cpu_milliseconds is None:
        return "not counted"
    return "about {:,.3f} to {:,.3f} ms".format(*node.cpu_milliseconds)


def _peak(facts: NetworkFacts) -> Iterator[Part]:
    """What the peak is made of, and where the other bytes come from."""
    arena = facts.arena
    if not arena.steps:
        return
    at = arena.peak_step
    step, alive, live = arena.steps[at], arena.alive(at), arena.live_bytes[at]
    doing = {
        "copy": "when constants are copied for",
        "table": "when a table is loaded for",
        "feed": "when rows arrive for",
        "take": "when rows are taken of",
    }.get(step.what, "in")
    rows = [(holder.name, holder.kind, held) for holder, held in alive[:_MOST_ALIVE]]
    used = [kind for kind in KINDS if any(holder.kind == kind for holder, _ in alive)]
    sums = {kind: sum(held for holder, held in alive if holder.kind == kind) for kind in used}
    says = "; ".join(f"{held:,} bytes of {KIND_NAMES.get(kind, kind)}" for kind, held in sums.items())
    told = [f"The peak is step {at}, {doing} '{facts.nodes[step.operator].name}': {live:,} bytes in use."]
    added = arena.arena_bytes - live
    told.append(f"The arena's {arena.arena_bytes:,} bytes are {added:,} more, by placement and rounding.")
    if facts.constants_in_sram_bytes:
        told.append(f"The constants lie in SRAM as well: {facts.constants_in_sram_bytes:,} bytes outside of the arena.")
    yield Words((" ".join(told),))
    bars = [
        {
            "name": name,
            "note": f"{held:,} · {100 * held / live:.1f} %",
            "values": [held if kind == part else 0 for part in used],
            "lines": [f"{held:,} bytes, {KIND_NAMES.get(kind, kind)}"],
        }
        for name, kind, held in rows
    ]
    if len(alive) > _MOST_ALIVE:
        rest = {kind: sum(held for holder, held in alive[_MOST_ALIVE:] if holder.kind == kind) for kind in used}
        held = sum(rest.values())
        note = f"{held:,} · {100 * held / live:.1f} %"
        more = {"name": f"{len(alive) - _MOST_ALIVE} more", "note": note, "values": [*rest.values()], "lines": [says]}
        bars.append(more)
    legend = [{"name": f"{KIND_NAMES.get(kind, kind)} {sums[kind]:,}", "colour": KINDS[kind]} for kind in used]
    yield Chart("bars", "peak", "What sets the peak, bytes", says, {"title": "", "parts": legend, "rows": bars})


def _arena(facts: NetworkFacts) -> Iterator[Part]:
    yield Words((_MAP_WORDS,))
    arena = facts.arena
    inner = None if facts.budget_bytes is None else facts.budget_bytes - facts.constants_in_sram_bytes
    says = (
        f"An arena of {arena.arena_bytes:,} bytes with {len(arena.holders)} buffers over {len(arena.steps)} steps. "
        "The tables below list the operators and the buffers."
    )
    yield Chart(
        "arena",
        "map",
        "Address against time; below what runs, and the bytes in use",
        says,
        _map_data(facts, arena, inner),
    )


def _map_data(facts: NetworkFacts, arena: ArenaMap, budget: int | None) -> dict[str, object]:
    whats = get_args(What)
    kinds = [kind for kind in KINDS if any(holder.kind == kind for holder in arena.holders)]
    steps = arena.steps
    rows = [step.rows or (0, 0, 0) for step in steps]
    return {
        "arena": arena.arena_bytes,
        "budget": budget,
        "peak": arena.peak_step,
        "alive": arena.live_bytes,
        "operators": [[node.name, node.cascade or 0, node.where] for node in facts.nodes],
        "whats": whats,
        "kinds": [[KIND_NAMES.get(kind, kind), KINDS[kind]] for kind in kinds],
        "steps": [
            [step.operator for step in steps],
            [whats.index(step.what) for step in steps],
            [step.number for step in steps],
            [step.of for step in steps],
            *([row[place] for row in rows] for place in range(3)),
            [step.cycles for step in steps],
        ],
        "holders": [
            [
                holder.name,
                kinds.index(holder.kind),
                holder.offset,
                holder.size_bytes,
                [number for window in holder.windows for number in window],
                holder.writes,
                holder.reads,
            ]
            for holder in arena.holders
        ],
    }


def _frontier(facts: NetworkFacts) -> Iterator[Part]:
    chosen = _chosen(facts)
    if facts.knee is None:
        yield Words(
            ("Only one answer was searched for. These are the choices that it needed, not the whole frontier.",)
        )
    if not facts.counted:
        yield Words(("Without an NPU no cycles are counted, and there is one choice.",))
        return
    lines = [
        [size(p.sram_bytes), f"{p.cycles:,} cycles, {p.milliseconds:,.3f} ms", *_change(facts, p)] for p in facts.points
    ]
    points = [[p.sram_bytes, p.milliseconds, *told] for p, told in zip(facts.points, lines, strict=True)]
    marks = (
        [] if facts.budget_bytes is None else [{"x": facts.budget_bytes, "name": f"budget {size(facts.budget_bytes)}"}]
    )
    if facts.knee is not None:
        marks.append({"x": facts.points[facts.knee].sram_bytes, "name": "knee"})
    series = {"name": "frontier", "points": points, "steps": True, "hollow": chosen}
    axes = {"x": {"title": "SRAM (KiB)", "kib": True}, "y": {"title": "ms"}}
    says = f"{len(points)} choices from {size(facts.points[0].sram_bytes)} to {size(facts.points[-1].sram_bytes)}."
    yield Chart(
        "steps",
        "curve",
        "Every choice found; the open circle is this one",
        says,
        {**axes, "series": [series], "marks": marks},
    )
    columns = (
        Column("sram_bytes", "SRAM bytes"),
        Column("more_bytes", "more bytes", hint="than the network has as it was compiled"),
        Column("cycles", "cycles"),
        Column("more_cycles", "more cycles", hint="than the network takes as it was compiled"),
        Column("more_share", "of them", "share"),
        Column("milliseconds", "ms", "time"),
        Column("note", "note", "text"),
    )
    yield Grid("points", "What each choice would change", columns, tuple(_point_rows(facts, chosen)))


def _chosen(facts: NetworkFacts) -> int:
    """The point that was compiled: the last one that takes no more bytes."""
    return max((i for i, p in enumerate(facts.points) if p.sram_bytes <= facts.sram_bytes), default=0)


def _change(facts: NetworkFacts, point: Choice) -> list[str]:
    bytes_more, cycles_more = point.sram_bytes - facts.sram_bytes, point.cycles - facts.cycles
    if not bytes_more and not cycles_more:
        return ["this is what was compiled"]
    share = f", {100 * cycles_more / facts.cycles:+.1f} %" if facts.cycles else ""
    return [f"{bytes_more:+,} bytes, {cycles_more:+,} cycles{share}"]


def _point_rows(facts: NetworkFacts, chosen: int) -> Iterator[tuple[str | int | float | None, ...]]:
    for place, point in enumerate(facts.points):
        more = point.cycles - facts.cycles
        which = [
            word
            for word, there in (
                ("compiled", place == chosen),
                ("knee", place == facts.knee),
                ("over the budget", facts.budget_bytes is not None and point.sram_bytes > facts.budget_bytes),
            )
            if there
        ]
        share = more / facts.cycles if facts.cycles else None
        moved = point.sram_bytes - facts.sram_bytes
        yield point.sram_bytes, moved, point.cycles, more, share, point.milliseconds, ", ".join(which)


def _cycles(facts: NetworkFacts) -> Iterator[Part]:
    if not facts.counted:
        yield Words(("There is no NPU, and of a CPU nothing is counted.",))
        return
    memories = [name for name, *_ in facts.memories]
    parts = dict(_BOUNDS) | dict(zip(memories, _MEMORY_COLOURS, strict=False))
    used = [part for part in parts if any(node.bound_cycles.get(part) for node in facts.nodes)]
    order = sorted(used, key=lambda part: (part not in memories and part != "compute", part != "compute"))
    yield Words((_CYCLES_WORDS,))
    total = sum(node.cycles for node in facts.nodes) or 1
    rows = [
        {
            "name": node.name,
            "note": f"CPU, {_on_cpu(node)}"
            if node.where == "cpu"
            else f"{node.cycles:,} · {100 * node.cycles / total:.1f} %",
            "values": [node.bound_cycles.get(part, 0) for part in order],
            "lines": _cost_lines(node),
        }
        for node in facts.nodes
        if node.cycles or node.where == "cpu"
    ]
    shares = {part: sum(node.bound_cycles.get(part, 0) for node in facts.nodes) for part in order}
    says = "; ".join(f"{_bound_name(part)} {100 * cycles / total:.1f} %" for part, cycles in shares.items())
    legend = [
        {"name": f"{_bound_name(part)} {100 * shares[part] / total:.0f} %", "colour": parts[part]} for part in order
    ]
    yield Chart(
        "bars",
        "bounds",
        "Cycles of each operator, in execution order",
        says,
        {"title": "cycles", "parts": legend, "rows": rows},
    )


def _bound_name(part: str) -> str:
    """What bounds, in words; other memories bear their names in the vela.ini."""
    return _BOUND_NAMES.get(part, part)


def _cost_lines(node: OperatorNode) -> list[str]:
    if node.where == "cpu":
        return [f"{node.kind} on the CPU, {_on_cpu(node)}", node.reason]
    shares = sorted(node.bound_cycles.items(), key=lambda one: -one[1])
    lines = [f"{node.kind}, {node.cycles:,} cycles, {node.milliseconds or 0:,.3f} ms"]
    if node.done_by:
        return [f"{node.kind}, done by the operations of '{node.done_by}'"]
    lines += [f"{_bound_name(part)}: {cycles:,} cycles" for part, cycles in shares]
    lines.append(f"{node.macs:,} MACs, {100 * node.utilisation:.1f} % of the units' work")
    return lines


def _network(facts: NetworkFacts) -> Iterator[Part]:
    on_cpu = [node for node in facts.nodes if node.where == "cpu"]
    yield Words((_NETWORK_WORDS,))
    total = sum(node.cycles for node in facts.nodes) or 1
    rows = [
        {
            "name": node.name,
            "kind": node.kind,
            "shape": node.shape,
            "where": node.where,
            "cascade": node.cascade or 0,
            "reason": node.reason,
            "note": "CPU" if node.where == "cpu" else f"{100 * node.cycles / total:.1f} %" if facts.counted else "",
            "lines": [node.name, *_cost_lines(node), f"makes {node.shape}"]
            + ([f"cascade {node.cascade}"] if node.cascade else []),
            "reads": node.reads,
            "makes": node.makes,
        }
        for node in facts.nodes
    ]
    says = f"{len(facts.nodes)} operators, {len(on_cpu)} of them on the CPU."
    yield Chart("network", "graph", "Operators and tensors; on the right the share of the cycles", says, {"rows": rows})


def _tables(facts: NetworkFacts) -> Iterator[Part]:
    memories = [name for name, *_ in facts.memories]
    columns = (
        Column("place", "#"),
        Column("operator", "operator", "text"),
        Column("kind", "kind", "text"),
        Column("where", "where", "text"),
        Column("cascade", "cascade"),
        Column("makes", "makes", "text"),
        Column("cycles", "cycles"),
        Column("milliseconds", "ms", "time"),
        Column("bound", "bound by", "text"),
        Column("macs", "MACs"),
        Column("utilisation", "utilisation", "share"),
        Column("live_bytes", "bytes in use", hint="the most of the arena at one of its steps"),
        Column("operations", "stripes"),
        *(Column(f"{name.lower()}_bytes", f"{_bound_name(name)} bytes", hint="read and written") for name in memories),
        Column("reason", "why not on the NPU", "text"),
    )
    rows = tuple(_node_row(place, node, memories) for place, node in enumerate(facts.nodes))
    yield Grid("operators", "Operators, in execution order", columns, rows)
    yield _buffers(facts)
    yield Grid(
        "interface",
        "Inputs and outputs",
        tuple(
            Column(key, key, "number" if key == "bytes" else "text")
            for key in ("name", "end", "type", "shape", "bytes")
        ),
        facts.interface,
    )
    if facts.memories:
        named = (Column("memory", "memory", "text"), Column("read", "bytes read"), Column("written", "bytes written"))
        busy = Column("busy_cycles", "cycles at full bandwidth")
        yield Grid("memories", "Memories", (*named, busy), facts.memories)


def _node_row(place: int, node: OperatorNode, memories: Sequence[str]) -> tuple[str | int | float | None, ...]:
    counted = node.where == "npu"
    bound = max(node.bound_cycles, key=lambda part: node.bound_cycles[part], default="")
    moved = [node.read_bytes.get(name, 0) + node.written_bytes.get(name, 0) if counted else None for name in memories]
    return (
        place,
        node.name,
        node.kind,
        node.where.upper(),
        node.cascade,
        node.shape,
        node.cycles if counted else None,
        node.milliseconds,
        f"done by {node.done_by}" if node.done_by else _bound_name(bound) if counted else _on_cpu(node),
        node.macs,
        node.utilisation if counted else None,
        node.live_bytes,
        node.operations if counted else None,
        *moved,
        node.reason,
    )


def _buffers(facts: NetworkFacts) -> Grid:
    """The address table: where everything lies, and when."""
    columns = (
        Column("name", "buffer", "text"),
        Column("kind", "kind", "text"),
        Column("offset", "first byte"),
        Column("size_bytes", "bytes"),
        Column("most_in_use", "most in use", hint="bytes that are in use at one step"),
        Column("first_step", "from step"),
        Column("last_step", "to step", hint="one past the last"),
        Column("written_by", "written by", "text"),
        Column("read_by", "last read by", "text"),
    )
    named = [facts.nodes[step.operator].name for step in facts.arena.steps]
    rows = []
    for holder in sorted(
        facts.arena.holders, key=lambda one: (one.windows[0][0], one.offset) if one.windows else (0, 0)
    ):
        used = [window for window in holder.windows if window[3] > window[2]]
        rows.append(
            (
                holder.name,
                KIND_NAMES.get(holder.kind, holder.kind),
                holder.offset,
                holder.size_bytes,
                max((high - low for _, _, low, high in used), default=0),
                used[0][0] if used else None,
                used[-1][1] if used else None,
                ", ".join(dict.fromkeys(named[step] for step in holder.writes)),
                named[holder.reads[-1]] if holder.reads else "",
            )
        )
    return Grid("buffers", "Buffers in the arena, by their first step", columns, tuple(rows), open_rows=100)
