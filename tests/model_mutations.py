"""Models that are changed field by field, with the format known, and what becomes of each in a process of its own.

Owns the places of a TFLite file where a number means something (shapes, types, quantisations, codes, indices, options,
lengths, offsets), the values that are tried there, and the child that reads, compiles, writes, runs and judges one file
under limits of time and memory. Draws from the generator that it is given and from nothing else.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import select
import signal
import struct
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ethoscade
import numpy as np
import tflite
from ethoscade.codegen import tflite as writer
from ethoscade.errors import EthoscadeError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, random_network
from tflite_files import File, Op, T, constant

SECONDS, MEGABYTES = 10, 1024
"""What one file may take: CPU time, and memory beyond what the process had before it."""
WRONG, HANG, MEMORY, TRACEBACK, DIED = "WRONG", "hang", "memory", "traceback", "died"
BAD = (WRONG, HANG, MEMORY, TRACEBACK, DIED)


@dataclass(frozen=True)
class Place:
    """A number in the file: what it is, where its bytes are, and how they are packed."""

    what: str
    offset: int
    form: str


def places(data: bytes) -> dict[str, list[Place]]:
    """Every number of a right file that its reader looks at, by what it is."""
    model = tflite.Model.GetRootAs(data, 0)
    found: dict[str, list[Place]] = {}

    def add(what: str, offset: int, form: str) -> None:
        found.setdefault(what, []).append(Place(what, offset, form))

    def field(table: object, number: int, what: str, form: str) -> None:
        tab = table._tab
        if entry := tab.Offset(4 + 2 * number):
            add(what, tab.Pos + entry, form)

    def vector(table: object, number: int, what: str, form: str) -> None:
        tab = table._tab
        if entry := tab.Offset(4 + 2 * number):
            add("offset", tab.Pos + entry, "<I")
            start = tab.Vector(entry)
            add("length", start - 4, "<I")
            for i in range(min(tab.VectorLen(entry), 64)):
                add(what, start + i * struct.calcsize(form), form)

    for i in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(i)
        field(code, 0, "code", "<b")
        field(code, 2, "version", "<i")
        field(code, 3, "code", "<i")
    for i in range(model.BuffersLength()):
        tab = model.Buffers(i)._tab
        if entry := tab.Offset(4):
            add("offset", tab.Pos + entry, "<I")
            add("length", tab.Vector(entry) - 4, "<I")
    graph = model.Subgraphs(0)
    vector(graph, 1, "index", "<i")
    vector(graph, 2, "index", "<i")
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        vector(tensor, 0, "extent", "<i")
        field(tensor, 1, "type", "<b")
        field(tensor, 2, "buffer", "<I")
        field(tensor, 5, "flag", "<b")
        if (quantisation := tensor.Quantization()) is not None:
            vector(quantisation, 2, "scale", "<f")
            vector(quantisation, 3, "zero point", "<q")
            field(quantisation, 6, "axis", "<i")
    for i in range(graph.OperatorsLength()):
        operator = graph.Operators(i)
        field(operator, 0, "buffer", "<I")
        vector(operator, 1, "index", "<i")
        vector(operator, 2, "index", "<i")
        field(operator, 3, "options kind", "<B")
        if (options := operator.BuiltinOptions()) is not None:
            table = tflite.Conv2DOptions()
            table.Init(options.Bytes, options.Pos)
            size = struct.unpack_from("<H", data, options.Pos - struct.unpack_from("<i", data, options.Pos)[0])[0]
            for number in range((size - 4) // 2):
                field(table, number, "option", "<b")
                field(table, number, "wide option", "<i")
    small = [t for t in range(graph.TensorsLength()) if 0 < _data_length(model, graph, t) <= 128]
    for index in small:
        start = model.Buffers(graph.Tensors(index).Buffer())._tab
        begin = start.Vector(start.Offset(4))
        for offset in range(0, _data_length(model, graph, index) - 3, 4):
            add("constant", begin + offset, "<i")
    return {what: [p for p in at if p.offset + struct.calcsize(p.form) <= len(data)] for what, at in found.items()}


def _data_length(model: tflite.Model, graph: tflite.SubGraph, index: int) -> int:
    return int(model.Buffers(graph.Tensors(index).Buffer()).DataLength())


def _value(rng: random.Random, place: Place, old: float, size: int) -> float:
    near = (old + 1, old - 1, old * 2, -old, 0, 1, 2, 3, 4, 5, 8, 16)
    edges = (-1, 127, 255, 256, 32767, 65535, 65536, 1 << 20, 2**31 - 1, -(2**31))
    if place.what == "scale":
        return rng.choice(
            (old * 2, old / 3, old * 1.0001, 0.0, -1.0, 1e-45, 1e-38, 1e-20, 1e-9, 1e10, 3e38, np.inf, np.nan)
        )
    if place.what == "type":
        return rng.choice((0, 1, 2, 3, 4, 6, 7, 9, 10, 12, 15, 16, rng.randrange(25)))
    if place.what == "code":
        return rng.choice((rng.randrange(128), rng.randrange(220), 0, 127, -1))
    if place.what == "offset":
        return rng.choice((old + 4, old - 4, rng.randrange(size), 0, 2**31, 2**32 - 1))
    if place.what == "zero point":
        return rng.choice((*near, -128, 127, 128, 255, 2**40))
    return rng.choice(near if rng.random() < 0.7 else edges)


def mutate(data: bytes, at: dict[str, list[Place]], rng: random.Random) -> bytes:
    """The file with one to three of its numbers changed, or now and then with flipped bits or another length."""
    changed = bytearray(data)
    style = rng.randrange(12)
    if style == 0:
        for _ in range(rng.randint(1, 6)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if style == 1:
        return bytes(changed[: rng.randrange(len(changed))])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        place = rng.choice(at[rng.choice(sorted(at))])
        (old,) = struct.unpack_from(place.form, changed, place.offset)
        value = _value(rng, place, old, len(data))
        if place.form != "<f":
            bits = 8 * struct.calcsize(place.form)
            wrapped = int(value) % (1 << bits)
            signed = place.form[1].islower() and wrapped >= 1 << (bits - 1)
            value = wrapped - (1 << bits) if signed else wrapped
        struct.pack_into(place.form, changed, place.offset, value)
    return bytes(changed)


def _kept_for_the_cpu() -> bytes:
    """Operators that nobody looks into: options of several kinds, state, custom ones."""
    image, scale = (1, 4, 4, 8), {"scales": (0.5,)}
    return File(
        (
            T("x", image, **scale),
            T("product", image, **scale),
            constant("sizes", [8, 8]),
            T("large", (1, 8, 8, 8), **scale),
            T("state", (1, 64), variable=True, **scale),
            T("row", (1, 8, 8, 8), **scale),
            constant("axis", [1]),
            T("sum", (1, 8, 8), **scale),
            T("y", (1, 8, 8), scales=(0.25,)),
        ),
        (
            Op("MUL", (0, 0), (1,), "MulOptions", {"FusedActivationFunction": 1}),
            Op("RESIZE_BILINEAR", (1, 2), (3,), "ResizeBilinearOptions", {"HalfPixelCenters": True}),
            Op("my_filter", (3, 4), (5,)),
            Op("SUM", (5, 6), (7,), "ReducerOptions", {"KeepDims": False}),
            Op("QUANTIZE", (7,), (8,)),
        ),
        (0,),
        (8,),
    ).bytes()


def victims() -> list[bytes]:
    """Small networks that together have every kind of operator that the reader knows; one is run here.

    So that children need not import again what only a compilation imports.
    """
    b = ModelBuilder("mixed")
    x = b.conv2d(b.pad(b.input((1, 7, 6, 3)), ((0, 0), (1, 1), (1, 1), (0, 0))), 8, 3, padding="VALID")
    left, right = b.split(b.depthwise(x, 3), 2)
    pooled = b.max_pool(b.relu(right), 3, stride=1, padding="SAME")
    x = b.average_pool(b.concatenate([left, right]), 2)
    b.output(b.softmax(b.fully_connected(b.mean(x), 5)), b.reshape(b.quantize(b.add(left, pooled)), (1, 1, 6, 28)))
    mixed = b.build()
    if (said := judge(mixed)) != "compiled and right":
        raise AssertionError(f"the undamaged network is {said}")
    return [mixed, _kept_for_the_cpu(), *(data for data in map(random_network, range(40)) if len(data) < 1 << 14)]


def judge(data: bytes) -> str:
    """Read, compile, write, read again, run and compare with the reference; how it ended, in a few words."""
    try:
        compiled = ethoscade.compile(data)
        written = writer.write(compiled.artifact)
    except EthoscadeError as error:
        kind = "refused" if error.__cause__ is None else f"refused by a safety net: {type(error.__cause__).__name__}"
        return f"{kind} ({type(error).__name__})"
    if any(operator.where == "npu" for operator in compiled.operators):
        read_tflite(written)
    inputs = random_inputs(compiled.source, 0)
    try:
        expected = reference.run(compiled.source, inputs)
        found = compiled.simulate(inputs)
    except UnsupportedOperatorError:
        return "compiled, without a reference"
    except EthoscadeError as error:
        return f"compiled, not run ({type(error).__name__})"
    for name, value in expected.outputs.items():
        if not np.array_equal(found.outputs[name], value, equal_nan=value.dtype.kind == "f"):
            return f"{WRONG}: output '{name}' differs"
    return f"{WRONG}: {found.hazards} hazards" if found.hazards else "compiled and right"


def outcome(data: bytes, work: Callable[[bytes], str] = judge) -> tuple[str, float, int]:
    """What `work` says of a file, in a child: the words, its CPU seconds and the MB that it took beyond ours."""
    reader, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(out, _child(data, work).encode()[:2000])
        os._exit(0)
    os.close(out)
    said = b""
    if select.select([reader], [], [], 30 * SECONDS)[0]:
        said = os.read(reader, 2048)
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status, usage = os.wait4(child, 0)
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, megabytes = usage.ru_utime + usage.ru_stime, max(usage.ru_maxrss - ours, 0) // 1024
    words = said.decode(errors="replace")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        words = f"{HANG}: stopped" if number in (signal.SIGXCPU, signal.SIGKILL) else f"{DIED} of signal {number}"
    return words or f"{DIED} silently", seconds, megabytes


def _child(data: bytes, work: Callable[[bytes], str]) -> str:
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with open("/proc/self/statm", encoding="ascii") as pages:
        taken = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (MEGABYTES << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    try:
        return work(data)
    except MemoryError:
        return f"{MEMORY}: {_where()}"
    except BaseException as error:  # noqa: BLE001 - a panic of the core is none of the library's errors
        return f"{TRACEBACK}: {type(error).__name__}: {error} {_where()}"


def _where() -> str:
    return " < ".join(line.strip().split("\n")[0] for line in reversed(traceback.format_exc().split("  File ")[-2:]))


def is_bad(words: str) -> bool:
    """Whether an outcome is one that must not be."""
    return words.startswith(BAD) or "safety net" in words


def summary(words: str) -> str:
    """An outcome without what differs from file to file."""
    return words.split(":")[0] if words.startswith((WRONG, MEMORY, TRACEBACK)) else words


def many(files: Sequence[bytes], count: int, seed: int) -> list[tuple[int, bytes]]:
    """`count` mutated files with their numbers, of the victims in turn."""
    at = [places(data) for data in files]
    found = []
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        which = number % len(files)
        found.append((number, mutate(files[which], at[which], rng)))
    return found
