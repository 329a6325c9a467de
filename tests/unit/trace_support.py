"""What every trace must be, whoever's file it is of: Chromium's "Trace Event Format" as Perfetto reads it.

Reads Vela's debug databases as well.
"""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from typing import Any

from ethoscade.ir import Graph
from ethoscade.run.timing import TimingReport
from ethoscade.targets.target import Target
from ethoscade.trace.operators import told_by_stream
from ethoscade.trace.record import NpuSource, Record, record

Event = dict[str, Any]
Tables = dict[str, list[dict[str, str]]]


def recorded(target: Target, *calls: tuple[str, bytes, TimingReport]) -> Record:
    """Streams that belong to no file, one after the other."""
    sources = [
        NpuSource(name, payload, report, (), told_by_stream(payload, report, [])) for name, payload, report in calls
    ]
    return record(Graph("streams", (), (), (), ()), target, sources, {}, own_cache=False)


def nanoseconds(microseconds: float) -> int:
    """A time of a trace as Perfetto's trace processor reads it: a thousand times the number, cut down."""
    return int(microseconds * 1000.0)


def end_of(event: Event) -> int:
    """When a slice ends, in nanoseconds."""
    return nanoseconds(event["ts"]) + nanoseconds(event["dur"])


def lanes_of(found: dict[str, Any]) -> dict[str, list[Event]]:
    """The slices and instants of a trace by the name of their lane."""
    events = found["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert len(names) == sum(event["name"] == "thread_name" for event in events), "two lanes of one number"
    return {name: [e for e in events if e["ph"] in "Xi" and e["tid"] == lane] for lane, name in names.items()}


def processes_of(found: dict[str, Any]) -> dict[str, dict[str, list[Event]]]:
    """The lanes by the name of their process."""
    events = found["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    whose = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "thread_name"}
    lanes = lanes_of(found)
    return {name: {lane: lanes[lane] for lane, pid in whose.items() if pid == at} for at, name in names.items()}


def counters_of(found: dict[str, Any], name: str) -> list[Event]:
    """The samples of a counter."""
    return [event for event in found["traceEvents"] if event["ph"] == "C" and event["name"] == name]


def check_format(found: dict[str, Any]) -> None:
    """What the format asks for, and what Perfetto needs to draw every slice where it belongs."""
    events = found["traceEvents"]
    assert {event["ph"] for event in events} <= set("XMCisf") and found["displayTimeUnit"] in ("ms", "ns")
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["args"], dict)
        assert event["pid"] in named
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] not in "Xisf" or {"ts", "tid", "cat"} <= set(event)
        assert event["ph"] != "X" or event["dur"] >= 0
        assert event["ph"] != "i" or event["s"] == "t"
        assert event["ph"] != "C" or (event["args"] and all(value >= 0 for value in event["args"].values()))
    times = [nanoseconds(event["ts"]) for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    assert [event["ph"] for event in events[: len(events) - len(times)]] == ["M"] * (len(events) - len(times))
    for slices in lanes_of(found).values():
        open_until: list[int] = []
        for event in (event for event in slices if event["ph"] == "X"):
            start, end = nanoseconds(event["ts"]), end_of(event)
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], event
            open_until.append(end)
    _check_flows(events)


def _check_flows(events: list[Event]) -> None:
    """An arrow starts once and ends once, later or at once, each time where a slice of its lane begins."""
    begins = {(e["tid"], nanoseconds(e["ts"])) for e in events if e["ph"] == "X" and e["dur"] > 0}
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) + len(ends) == sum(event["ph"] in "sf" for event in events) and set(starts) == set(ends)
    for flow, event in starts.items():
        assert event["ts"] <= ends[flow]["ts"] and ends[flow]["bp"] == "e"
        assert {(e["tid"], nanoseconds(e["ts"])) for e in (event, ends[flow])} <= begins


def tables_of(data: bytes) -> Tables:
    """The tables by name, each row by its header."""
    root = ET.fromstring(data)
    assert root.tag == "debug"
    found: Tables = {}
    for table in root:
        assert table.tag == "table"
        found[table.get("name", "")] = list(csv.DictReader(io.StringIO((table.text or "").lstrip())))
    return found
