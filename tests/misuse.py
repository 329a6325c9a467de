"""Calls that make no sense: every public callable with a wrong value in every parameter, one at a time.

Owns the public callables (found, not listed), one right call of each, and the wrong values. Only an `EthoscadeError` or
a result may come out. Calls write where they are told to, so run them in a folder of their own.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
from ethoscade import memory
from ethoscade.codegen.artifact import NpuCall
from ethoscade.errors import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.memory import model as memory_model
from ethoscade.run import simulator, timing
from ethoscade.targets import boards, device_files, devices, target
from ethoscade.targets.configurations import SYSTEM, read_configuration
from ethoscade.testing import tiny_conv
from ethoscade.util import sizes

MODULES = (ethoscade, memory, memory_model, boards, device_files, devices, target, sizes, simulator, timing)
# What the library makes and hands out: nobody calls these.
MADE_BY_THE_LIBRARY = frozenset(
    {
        "Accelerator", "Address", "Advice", "BoardDescription", "Check", "Compiled", "CompiledMany", "Curve", "Hazard",
        "KernelDetail",
        "Library", "Memories", "NpuReport", "NpuRun", "NpuWarning", "OperatorRow", "OperatorSummary", "OperatorTable",
        "OperatorTiming", "Placement", "PoolOverflowError", "Prepared", "ProgramPlacement", "Sliding", "SweepRow",
        "Streaming", "Target", "TimedCommand", "TimingReport", "Traffic",
    }
)  # fmt: skip
# Types that carry numbers and are held to them where they are used.
CHECKED_WHERE_USED = frozenset({"Memory", "Engine", "Dma"})

MODEL = tiny_conv()


class Path8(os.PathLike[bytes]):
    """A path that is bytes."""

    def __fspath__(self) -> bytes:
        return b"bytes_\xff"


class NoPath(os.PathLike[str]):
    """A path that is none."""

    def __fspath__(self) -> str:
        return 5  # type: ignore[return-value]


class Unspeakable:
    """Something that cannot even be printed."""

    def __repr__(self) -> str:
        raise ValueError("no")


class Choice(enum.IntEnum):
    """A whole number with a name."""

    ONE = 1


def _released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 255, 1 << 31, 1 << 32, 1 << 63, 1 << 64, -(1 << 63) - 1, 10**400, 10**5000, 0.5,
    1.5, -0.0, float("nan"), float("inf"), 1e308, 5e-324, Fraction(17, 2), Fraction(1, 3), Fraction(10**5000, 3),
    Decimal("8.5"), Decimal("1e-99999999"), Decimal("1e99999999"), Decimal("NaN"), Decimal("sNaN"), 1j,
    "", "x", "0", "1/64", "1e-99999999", "9" * 5000, "a\0b", "x" * 300, "x/" * 3000, "٣", "\ud800", "\n", "-1KiB",
    "ethos-u55-256", b"", b"x", b"\xff\0", bytearray(b"x"), [], [1, [2, 3]], [None], ["x"], [[]], {}, {1: 2},
    {"x": [1, [2, 3]]}, {"x": None}, {"": 0}, set(), {1, 2}, frozenset("x"), (), (1,), (1.5, 1), (0, 0), (1, 2, 3),
    object(), lambda *a, **k: None, np.int8(3), np.int64(-1), np.uint64(2**64 - 1), np.float16(1.5),
    np.float32("nan"), np.bool_(True), np.array(3), np.array([]), np.zeros((2, 2)), np.array("x"), np.array(None),
    np.zeros((0, 3), np.int8), Path("missing/x"), Path("."), Path8(), NoPath(), Unspeakable(), Choice.ONE,
    range(3), range(10**6), ..., NotImplemented, Exception("x"), np.dtype("int8"), np.datetime64("NaT"),
    _released(),
)  # fmt: skip
# Made anew for each call, because looking at them uses them up.
WRONG: tuple[Callable[[], Any], ...] = (
    *(functools.partial(lambda value: value, value) for value in _VALUES),
    lambda: iter([1]),
    lambda: (letter for letter in "ab"),
    {"x": 1}.keys,
)


@dataclass(frozen=True)
class Call:
    """A public callable and arguments that are right, by name."""

    name: str
    function: Callable[..., Any]
    right: Mapping[str, Any]


@functools.cache
def compiled() -> ethoscade.Compiled:
    """One small compilation, with methods to call."""
    return ethoscade.compile(MODEL)


def _right_arguments() -> dict[str, dict[str, Any]]:
    """Right arguments by the callable's name; parameters that are left out are tried with wrong values as well."""
    found = compiled()
    payload = next(call.payload for call in found.artifact.calls if isinstance(call, NpuCall))
    inputs = random_inputs(read_tflite(MODEL), 0)
    regions = [bytes(found.artifact.constants), found.artifact.arena_bytes]
    buffers = [memory.Buffer("a", 0, 2, 16), memory.Buffer("b", 1, 3, 32)]
    Path("buffers.csv").write_text("id,lower,upper,size\na,0,2,16\n", encoding="utf-8")
    saved = found.save("saved.tflite")
    machine = {"region": 1, "start": 0, "end": 4}
    section = read_configuration().section(SYSTEM, "Ethos_U55_High_End_Embedded")
    return {
        "ethoscade.compile": {"model": MODEL, "optimise": "size"},
        "ethoscade.compile_many": {"models": {"net": MODEL}, "optimise": "size"},
        "CompiledMany.write_c": {"folder": "many"},
        "CompiledMany.write_mlf": {"path": "many.tar"},
        "ethoscade.frontier": {"model": MODEL},
        "ethoscade.prepare": {"model": MODEL},
        "ethoscade.sweep": {"models": {"net": MODEL}},
        "Prepared.compile": {"sram_kb": 64},
        "Prepared.fits": {"sram": 1 << 16},
        "Prepared.frontier": {},
        "Prepared.within": {"budget": 1 << 16},
        "ethoscade.check": {"model": MODEL},
        "ethoscade.plan": {"model": MODEL, "device": devices.cortex_m55()},
        "ethoscade.slide": {"model": MODEL},
        "ethoscade.simulate": {"source": saved, "inputs": inputs},
        "Curve.fastest_within": {"budget": 100_000},
        "Compiled.explain": {},
        "Compiled.stream_totals": {},
        "Compiled.table": {},
        "Compiled.addresses": {},
        "Compiled.cpu_time": {"cpu": "cortex-m4"},
        "Compiled.micro_arena": {},
        "Compiled.report": {},
        "Compiled.plot": {"path": "arena.png"},
        "Compiled.save": {"path": "again.tflite"},
        "Compiled.write_c": {"folder": "c"},
        "Compiled.write_mlf": {"path": "net.tar"},
        "Compiled.write_tflite_c": {"folder": "linked"},
        "Compiled.write_raw": {"path": "net.npz"},
        "Compiled.simulate": {"inputs": inputs},
        "Compiled.simulate_steps": {"steps": [inputs]},
        "Compiled.stream": {},
        "Compiled.timing": {},
        "Compiled.record": {"cpu": "cortex-m4"},
        "Compiled.trace": {"path": "trace.json", "cpu": "cortex-m4"},
        "Compiled.write_debug_database": {"path": "debug.xml"},
        "Compiled.verify": {"seeds": 1},
        "DeviceDescription": _fields(devices.matrix_npu()),
        "Buffer": {"name": "a", "lower": 0, "upper": 4, "size_bytes": 16},
        "Buffer.constant": {"name": "a", "size_bytes": 16},
        "Buffer.__post_init__": {},
        "Pool": {"name": "p"},
        "Pool.grants": {"access": (("cpu", "rw"),)},
        "Gap": {"lower": 1, "upper": 2},
        "Share": {"name": "a"},
        "memory.plan": {"buffers": buffers, "iterations": 10},
        "memory.read_csv": {"path": "buffers.csv"},
        "memory.write_csv": {"path": "written.csv", "buffers": buffers},
        "memory.merge_models": {"models": {"m": buffers}},
        "memory.place_program": {"program": found.program, "iterations": 10},
        "memory.place_programs": {"programs": {"m": found.program}, "iterations": 10},
        "memory.program_buffers": {"program": found.program},
        "Placement.address_of": {"name": "a"},
        "device_files.device_named": {"device": "cortex-m7"},
        "devices.cortex_m55": {},
        "devices.cortex_m7": {},
        "devices.matrix_npu": {},
        "target.load_target": {},
        "target.compilation_target": {},
        "Target.remark_on": {"budget_bytes": 1},
        "Target.with_cache_of": {"size_bytes": 4096},
        "target.core_clock_hz": {"system": section},
        "target.product_of": {"system_config": "Ethos_U55_High_End_Embedded"},
        "target.system_memory": {"system": section, "memory": "Sram", "product": "u55"},
        "boards.board_named": {"board": "himax-we2"},
        "boards.known_boards": {},
        "boards.names_board": {"text": "himax-we2"},
        "sizes.parse_size": {"text": "3KiB"},
        "sizes.budget_of": {"sram": "3KiB"},
        "sizes.budget_of_kib": {"sram_kb": 3},
        "Machine": {"accelerator": "ethos-u55-256", "regions": regions},
        "Machine.write": {"region": 1, "offset": 0, "data": b"abc"},
        "Machine.read": {"region": 1, "offset": 0, "size": 4},
        "Machine.touch": machine,
        "Machine.mark_initialised": machine,
        "Machine.find_uninitialised": machine,
        "Machine.size": {"region": 1},
        "Machine.touched_end": {"region": 1},
        "Machine.watch_input": machine,
        "Machine.limit_work": {"limit": 1 << 30},
        "Machine.assume": {},
        "Machine.run": {"payload": payload},
        "simulator.run": {"payload": payload, "regions": regions, "accelerator": "ethos-u55-256"},
        "simulator.driver_interface": {},
        "simulator.library": {},
        "simulator.disassemble": {"payload": payload},
        "timing.simulate_timing": {"payload": payload, "target": found.target},
        "TimedCommand.share": {"memory": "Sram"},
    }


def _fields(instance: Any) -> dict[str, Any]:
    return dict(vars(instance))


def _instances() -> dict[str, Any]:
    """Objects whose methods are called, by class, or by a method of one that needs its own."""
    found = compiled()
    buffers = [memory.Buffer("a", 0, 2, 16)]
    return {
        "Compiled": found,
        "Compiled.stream": ethoscade.compile(MODEL, stream_input=2),
        "CompiledMany": ethoscade.compile_many({"net": MODEL}),
        "Prepared": ethoscade.prepare(MODEL),
        "Curve": found.curve,
        "Target": found.target,
        "Pool": memory.Pool("p", access=(("cpu", "rw"),)),
        "Placement": memory.plan(buffers),
        "Machine": simulator.Machine("ethos-u55-256", [bytes(found.artifact.constants), found.artifact.arena_bytes]),
        "TimedCommand": found.timing()[0][1].commands[0],
    }


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public callable by a name such as `memory.plan` or `Machine.read`; errors and results are not called."""
    for module in MODULES:
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            value = getattr(module, name)
            if inspect.isfunction(value) and value.__module__ in {m.__name__ for m in MODULES} | {
                "ethoscade.memory.csv", "ethoscade.pipeline.check", "ethoscade.pipeline.many",
                "ethoscade.pipeline.planning", "ethoscade.pipeline.prepared", "ethoscade.run.execution",
                "ethoscade.sliding.file", "ethoscade.sweeps.driver",
            }:  # fmt: skip
                if module is ethoscade or value.__module__ in (module.__name__, "ethoscade.memory.csv"):
                    yield f"{module.__name__.split('.')[-1]}.{name}", value
            elif inspect.isclass(value) and (module is ethoscade or value.__module__ == module.__name__):
                yield from _of_class(name, value)


def _of_class(name: str, value: type) -> Iterator[tuple[str, Any]]:
    if issubclass(value, BaseException):
        return
    if name not in MADE_BY_THE_LIBRARY | CHECKED_WHERE_USED:
        yield name, value
    for method, function in vars(value).items():
        if not method.startswith("_") and (inspect.isfunction(function) or isinstance(function, classmethod)):
            yield f"{name}.{method}", getattr(value, method)


def calls() -> list[Call]:
    """Every public callable, ready to be called. Raises `KeyError` for one that nobody gave right arguments for."""
    right, instances = _right_arguments(), _instances()
    found = []
    for name, function in dict(public_names()).items():
        owner, _, method = name.partition(".")
        instance = instances.get(name, instances.get(owner)) if method else None
        bound = function if instance is None else getattr(instance, method)
        found.append(Call(name, bound, right[name]))
    return found


def cases() -> Iterator[tuple[Call, str, Callable[[], Any]]]:
    """Each call with each of its parameters wrong in each way."""
    for call in calls():
        for parameter in inspect.signature(call.function).parameters:
            for wrong in WRONG:
                yield call, parameter, wrong


def nested_cases(rng: random.Random, count: int) -> Iterator[tuple[Call, str, Callable[[], Any]]]:
    """Descriptions with a wrong value somewhere inside: fields of a device's memories, engines and DMA."""
    device = devices.matrix_npu()
    build = Call("DeviceDescription", devices.DeviceDescription, _fields(device))
    parts: tuple[tuple[str, Any], ...] = (
        ("arena", device.arena), ("constants", device.constants), ("dma", device.dma), ("engines", device.engines[0]),
    )  # fmt: skip
    for _ in range(count):
        parameter, part = rng.choice(parts)
        field, wrong = rng.choice(list(vars(part))), rng.choice(WRONG)

        def make(parameter: str = parameter, part: Any = part, field: str = field, wrong: Any = wrong) -> Any:
            value = type(part)(**{**vars(part), field: wrong()})
            return (value,) if parameter == "engines" else value

        yield build, parameter, make


def outcome(call: Call, parameter: str, wrong: Callable[[], Any]) -> str:
    """How a call ended: "returned", or the name of our error. Anything else escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call.function(**{**call.right, parameter: wrong()})
        except EthoscadeError as error:
            message = str(error)
            assert message and len(message) < 20_000, message[:100]
            return type(error).__name__
    return "returned"
