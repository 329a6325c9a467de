"""Vela's debug database: an XML file by which tools lead times at offsets of a command stream back to operators.

Owns the format, as Vela's documentation and both of its cores have it: tables as CSV in CDATA, `source` operators of
the file, `optimised` operations made of them, `queue` with the offset of each kernel's command in its command stream,
and `cmdstream` with the offset of each payload in the compiled file. Numbers are keys: -1 stands for no operator.

Three things go beyond Vela's. `source` and `optimised` end in a column of names, `dma` is like `queue` for transfers,
and `group` names the operation that does the work of another one as well.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import quoteattr

from ..util.records import dataclass

_OPERATION = ("operator", "kernel_w", "kernel_h", "ofm_w", "ofm_h", "ofm_d")
_QUEUE = ("offset", "cmdstream_id", "optimised_id")
# What XML cannot hold: control characters, halves of characters, and two that are none.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class OperationShape:
    """What an operator is: its kind, its window's width and height, and the output's width, height and depth."""

    kind: str
    kernel: tuple[int, int]
    ofm: tuple[int, int, int]


@dataclass(frozen=True)
class SourceOperator:
    """An operator of the original file; `key` is its place there."""

    name: str
    shape: OperationShape
    key: int


@dataclass(frozen=True)
class OptimisedOperation:
    """An operation made of a source operator, by its number, -1 for none. `group` is who does its work, if another."""

    name: str
    shape: OperationShape
    source: int
    group: int | None = None


@dataclass(frozen=True)
class QueuedCommand:
    """The command of a kernel or transfer: its byte in a command stream, by number, and the operation that it is of."""

    offset: int
    stream: int
    optimised: int
    is_transfer: bool


@dataclass(frozen=True)
class DebugDatabase:
    """All tables. `file_offsets` are those of the payloads in the compiled file, in the order of the streams."""

    source_file: str
    optimised_file: str
    sources: tuple[SourceOperator, ...]
    optimised: tuple[OptimisedOperation, ...]
    queue: tuple[QueuedCommand, ...]
    file_offsets: tuple[int, ...]


def render(database: DebugDatabase) -> bytes:
    """The file's bytes; the same for the same database."""
    sources = [(i, *_cells(of.shape), of.key, of.name) for i, of in enumerate(database.sources)]
    optimised = [(i, of.source, *_cells(of.shape), of.name) for i, of in enumerate(database.optimised)]
    queued = [(c.is_transfer, (c.offset, c.stream, c.optimised)) for c in database.queue]
    groups = [(i, of.group) for i, of in enumerate(database.optimised) if of.group is not None]
    names = f"source={_quoted(database.source_file)} optimised={_quoted(database.optimised_file)}"
    tables = (
        _table("source", ("id", *_OPERATION, "ext_key", "name"), sources),
        _table("optimised", ("id", "source_id", *_OPERATION, "name"), optimised),
        _table("queue", _QUEUE, [row for is_transfer, row in queued if not is_transfer]),
        _table("cmdstream", ("id", "file_offset"), list(enumerate(database.file_offsets))),
        _table("dma", _QUEUE, [row for is_transfer, row in queued if is_transfer]),
        _table("group", ("id", "group_id"), groups),
    )
    text = f"<?xml version='1.0' encoding='UTF-8'?>\n<debug {names}>\n{''.join(tables)}</debug>\n"
    return text.encode()


def _cells(shape: OperationShape) -> tuple[str | int, ...]:
    return (shape.kind, *shape.kernel, *shape.ofm)


def _quoted(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", text))


def _table(name: str, header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    data = _NO_XML.sub("\ufffd", written.getvalue()).replace("]]>", "]]]]><![CDATA[>")
    return f"<table name='{name}'><![CDATA[{data}]]></table>\n"
