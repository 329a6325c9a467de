"""The emitted C as firmware uses it: every choice of memory, under every driver, sanitized, between guards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import numpy.typing as npt
import pytest
from codegen_support import cpu_artifact
from command_line_support import resized_classifier
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact, NpuCall
from ethoscade.codegen.c.options import COptions
from ethoscade.codegen.c.regions import used
from ethoscade.codegen.layout import whole_lines
from ethoscade.errors import CodegenError
from ethoscade.judge.verification import random_inputs
from ethoscade.run import simulator
from ethoscade.run.execution import run_artifact_steps
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder, inverted_residuals, tiny_conv
from ethosu.vela import driver_actions
from ethosu.vela.architecture_features import Accelerator as VelaAccelerator
from ethosu.vela.architecture_features import create_default_arch
from ethosu.vela.ethos_u55_regs import ethos_u55_regs
from firmware_builds import SANITIZED, STRICT, Driver, Firmware, device_words
from test_variables import inputs_of, network

Steps = Sequence[Mapping[str, npt.NDArray[Any]]]

IN_DRAM = {"accelerator": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}
NETWORKS = ("conv", "with_cpu", "cpu_only", "state", "fast")
EXTERNAL, STREAMED, AHEAD, TAKEN, BOTH = "external", "streamed", "ahead", "taken", "both"
"""Networks whose inputs are the caller's or arrive, or whose outputs leave: without what keeps these in the arena."""
ELSEWHERE = (EXTERNAL, STREAMED, AHEAD, TAKEN, BOTH)
CHOICES = {
    "internal": COptions(),
    "internal_io": COptions(workspace_io=True, weights="incbin"),
    "pools": COptions(module_name="default", workspace="pools", weights="incbin"),
    "pools_io": COptions(workspace="pools", workspace_io=True, weights="array"),
    "pool_weights": COptions(workspace="pools", weights="pool"),
}
# Releases of the driver between which something changed that emitted C or firmware sees.
DRIVERS = {
    "22.02": Driver("22.02"),
    "22.05": Driver("22.05"),
    "23.02": Driver("23.02"),
    "24.02": Driver("24.02"),
    "24.11": Driver("24.11"),
    "1.0": Driver("1.0", fast_memory=16),
    "1.99": Driver("1.99"),
    "1.99_multi": Driver("1.99", is_multi=True),
}
DOES_NOT_WAIT = [name for name in DRIVERS if name != "22.02"]


def softmax_model() -> bytes:
    b = ModelBuilder("cpu_only")
    b.softmax(b.input((1, 8)))
    return b.build()


def two_images() -> bytes:
    """Inputs that the NPU alone reads, of which neither is a whole number of cache lines."""
    b = ModelBuilder("two_images")
    first, second = (b.input((1, 9, 7, 3), name=name) for name in ("first", "second"))
    b.add(b.conv2d(first, 8, 3), b.conv2d(second, 8, 3))
    return b.build()


def small_image() -> bytes:
    """An image of odd rows, none of them a whole number of cache lines, and an operator on the CPU behind it."""
    b = ModelBuilder("small_image")
    x = b.depthwise(b.conv2d(b.input((1, 11, 7, 3), name="input"), 8, 3), 3)
    b.dequantize(b.fully_connected(b.average_pool(x, 3, stride=2), 4))
    return b.build()


def small_segmentation() -> bytes:
    """As many rows go out as come in, none of them a whole number of cache lines."""
    b = ModelBuilder("small_segmentation")
    x = b.conv2d(b.input((1, 11, 7, 3), name="input"), 8, 3, stride=2)
    b.conv2d(b.resize_nearest(b.depthwise(x, 3), (12, 8)), 5, 3)
    return b.build()


@cache
def artifact_of(name: str) -> Artifact:
    """A small network; the first one's arena ends within a cache line, however large these are."""
    if name == "cpu_only":
        return cpu_artifact(softmax_model(), name)
    models = {"conv": tiny_conv, "with_cpu": resized_classifier, "state": lambda: network("exchanged")}
    if name == EXTERNAL:
        return ethoscade.compile(two_images(), optimise="size", input_memory="OffChipFlash").artifact
    if name in (TAKEN, BOTH):
        rows = {"stream_input": 3, "stream_ahead": True} if name == BOTH else {}
        return ethoscade.compile(small_segmentation(), optimise="size", stream_output=2, **rows).artifact
    if name in (STREAMED, AHEAD):
        made = ethoscade.compile(small_image(), optimise="size", stream_input=2, stream_ahead=name == AHEAD)
        return made.artifact
    if name == "fast":
        return ethoscade.compile(inverted_residuals(resolution=24), sram=12_000, **IN_DRAM).artifact
    artifact = ethoscade.compile(models[name](), optimise="size").artifact
    if name == "conv":
        return replace(artifact, arena_bytes=artifact.arena_bytes // 128 * 128 + 128 + 48)
    return artifact if name != "state" else begun_anywhere(artifact)


def begun_anywhere(artifact: Artifact) -> Artifact:
    """The same with other first values, so that it shows whether variables change places."""
    rng = np.random.default_rng(7)
    variables = [
        replace(v, initial=rng.integers(-128, 128, v.initial.shape).astype(np.int8)) for v in artifact.graph.variables
    ]
    return replace(artifact, graph=replace(artifact.graph, variables=tuple(variables)))


@cache
def steps_of(name: str) -> Steps:
    if name == "state":
        return inputs_of(network("exchanged"), 3)
    return [random_inputs(artifact_of(name).graph, seed) for seed in (0, 1)]


@cache
def expected_of(name: str) -> list[list[npt.NDArray[Any]]]:
    """What the simulator has for the steps, one after the other."""
    return [list(result.outputs.values()) for result in run_artifact_steps(artifact_of(name), steps_of(name))]


def driver_for(name: str, driver: Driver) -> Driver:
    """The driver with the network's device behind it, and with as much fast memory as it needs."""
    artifact = artifact_of(name)
    if not artifact.fast_bytes:
        return driver
    fast = driver.fast_memory and whole_lines(artifact.fast_bytes)
    return replace(driver, accelerator=artifact.accelerator, fast_memory=fast)


def same(found: Sequence[Sequence[npt.NDArray[Any]]], expected: Sequence[Sequence[npt.NDArray[Any]]]) -> bool:
    return len(found) == len(expected) and all(
        len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
        for left, right in zip(found, expected, strict=True)
    )


def installed(compiler: str) -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    return compiler


# --- every choice under every driver --------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", [*NETWORKS, *ELSEWHERE])
def test_every_choice_runs_exactly(tmp_path: Path, name: str, choice: str) -> None:
    """Whole lines for the driver, neighbours unharmed, hooks around every call; drivers take turns with the choices."""
    artifact, options = artifact_of(name), CHOICES[choice]
    if artifact.external and options.workspace_io:
        with pytest.raises(CodegenError, match="which workspace_io"):
            c_source.write(artifact, tmp_path, options)
        return
    driver = list(DRIVERS.values())[(list(CHOICES).index(choice) + [*NETWORKS, *ELSEWHERE].index(name)) % len(DRIVERS)]
    # Rows that are handed over have no place before or after a run.
    given_up = 0 if artifact.handovers and options.workspace_io else None
    firmware = Firmware(
        artifact, tmp_path, options, driver=driver_for(name, driver), flags=SANITIZED, given_up=given_up
    )
    found = firmware.run(steps_of(name))
    assert found.statuses == [0] * len(steps_of(name)) and found.complaint == ""
    assert same(found.outputs, expected_of(name)) and found.intact
    assert found.calls == [seen for _ in found.statuses for n in range(len(artifact.calls)) for seen in (n, -1 - n)]
    if name != "cpu_only":
        assert found.user_arg and not found.is_reserved
        assert bool(found.told[2]) == (name == "fast"), "others use no region 2"
        assert all(found.told[3:]) and len(found.told) == 3 + len(artifact.external)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", [STREAMED, AHEAD, TAKEN, BOTH])
def test_a_camera_hands_over_rows(tmp_path: Path, name: str, driver: str) -> None:
    """As late as it may, and anew at any time: what it has given up leaves nothing behind."""
    artifact = artifact_of(name)
    options = CHOICES["pool_weights" if driver < "23" else "internal"]
    firmware = Firmware(artifact, tmp_path, options, driver=DRIVERS[driver], flags=SANITIZED, given_up=3)
    found = firmware.run(steps_of(name))
    assert found.statuses == [0, 0] and found.complaint == "" and not found.is_reserved
    assert same(found.outputs, expected_of(name)) and found.intact
    assert found.polls == len(artifact.handovers) > 5 and found.driver_result == 0


@pytest.mark.parametrize("driver", DOES_NOT_WAIT)
@pytest.mark.parametrize("choice", ["internal_io", "pool_weights"])
def test_runs_that_do_not_wait(tmp_path: Path, choice: str, driver: str) -> None:
    firmware = Firmware(
        artifact_of("with_cpu"), tmp_path, CHOICES[choice], driver=DRIVERS[driver], flags=SANITIZED, is_async=True
    )
    found = firmware.run(steps_of("with_cpu"))
    assert found.statuses == [0, 0] and found.complaint == "" and not found.is_reserved
    assert same(found.outputs, expected_of("with_cpu")) and found.intact
    npu = sum(isinstance(call, NpuCall) for call in artifact_of("with_cpu").calls)
    assert npu > 1 and found.polls == 3 * npu, "twice at work, once done"
    assert found.calls[1::2] == [-1 - n for n in found.calls[::2]]


@pytest.mark.parametrize("compiler", ["clang"])
@pytest.mark.parametrize("name", ["with_cpu", "state"])
def test_other_compilers_agree(tmp_path: Path, name: str, compiler: str) -> None:
    flags = ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
    firmware = Firmware(
        artifact_of(name), tmp_path, CHOICES["pools"], driver=DRIVERS["1.0"], compiler=installed(compiler), flags=flags
    )
    assert same(firmware.run(steps_of(name)).outputs, expected_of(name))


# --- lines and sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [16, 64, 128])
def test_lines_of_other_caches(tmp_path: Path, line: int) -> None:
    """The stand-in refuses bases and sizes that are not whole lines; one size for all networks."""
    flags = [f"-DETHOSCADE_CACHE_LINE_BYTES={line}", f"-DSTANDIN_LINE_BYTES={line}"]
    for choice in ("internal_io", "pools_io"):
        folder = tmp_path / choice
        folder.mkdir()
        firmware = Firmware(artifact_of("conv"), folder, CHOICES[choice], driver=DRIVERS["1.0"], flags=flags)
        found = firmware.run(steps_of("conv"))
        assert found.statuses == [0, 0] and found.complaint == "" and found.intact
        assert same(found.outputs, expected_of("conv"))


def test_a_line_that_the_sources_do_not_know_of_is_noticed(tmp_path: Path) -> None:
    """The stand-in's check can fail: arenas of 32-byte lines on a machine of larger ones."""
    flags = ["-DSTANDIN_LINE_BYTES=128"]
    firmware = Firmware(artifact_of("conv"), tmp_path, COptions(), driver=DRIVERS["1.0"], flags=flags)
    found = firmware.run(steps_of("conv"))
    assert found.statuses == [-8, -8] and found.complaint == "a base or its size is no whole cache lines"


@pytest.mark.parametrize(
    ("shift", "shortage", "status"), [(0, 0, 0), (8, 0, -4), (16, 0, -4), (0, 1, -5), (0, 32, -5), (8, 32, -4)]
)
@pytest.mark.parametrize("name", ["conv", "cpu_only", "fast"])
def test_memory_of_the_caller_is_looked_at(tmp_path: Path, name: str, shift: int, shortage: int, status: int) -> None:
    driver = driver_for(name, DRIVERS["1.0"])
    firmware = Firmware(artifact_of(name), tmp_path, CHOICES["pools"], driver=driver, flags=SANITIZED)
    found = firmware.run(steps_of(name)[:1], shift=shift, shortage=shortage)
    assert found.statuses == [status] and found.intact
    assert bool(found.calls) == (status == 0)
    assert same(found.outputs, expected_of(name)[:1]) == (status == 0)


def test_a_fast_memory_that_the_driver_has_not_is_refused(tmp_path: Path) -> None:
    small = replace(driver_for("fast", DRIVERS["1.0"]), fast_memory=16)
    found = Firmware(artifact_of("fast"), tmp_path, COptions(), driver=small).run(steps_of("fast")[:1])
    assert found.statuses == [-8] and found.complaint == "the fast memory is too small"


def test_weights_that_the_cpu_never_writes_need_no_maintenance(tmp_path: Path) -> None:
    counts = []
    for value in (0, 1):
        folder = tmp_path / str(value)
        folder.mkdir()
        flags = [f"-DTVMGEN_{artifact_of('conv').name.upper()}_WEIGHTS_CACHE_MAINTENANCE={value}"]
        firmware = Firmware(artifact_of("conv"), folder, COptions(), driver=DRIVERS["1.0"], flags=flags)
        counts.append(firmware.run(steps_of("conv")[:1]).flushed)
    # Without a size the simulator refuses to read the weights; the driver's hooks were told before.
    assert counts == [[0, 1, 0], [1, 1, 0]]


def test_regions_are_those_that_the_simulator_sees_touched() -> None:
    b = ModelBuilder("looked_up")
    b.gelu(b.input((1, 4, 4, 8)))
    for artifact in (*map(artifact_of, ("conv", "with_cpu", "state", "fast")), ethoscade.compile(b.build()).artifact):
        for call in artifact.calls:
            if isinstance(call, NpuCall):
                regions = [bytes(artifact.constants), artifact.arena_bytes, artifact.fast_bytes or artifact.arena_bytes]
                whole = {1: [(0, bytes(artifact.arena_bytes))]}
                run = simulator.run(call.payload, regions, artifact.accelerator, whole)
                assert used(call.payload) == {n for n, end in enumerate(run.touched_end) if end}
    assert used(b"COP1" + bytes(range(28))) is None


# --- drivers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
def test_another_npu_is_refused(tmp_path: Path, driver: str) -> None:
    """Where there are several NPUs the driver is left to choose, and finds the program to be for none of them."""
    variant = replace(DRIVERS[driver], accelerator="ethos-u55-128")
    found = Firmware(artifact_of("conv"), tmp_path, COptions(), driver=variant).run(steps_of("conv"))
    assert found.statuses == ([-3, -3] if variant.is_multi else [-6, -6]) and not found.is_reserved
    assert found.complaint == ("the program is for another NPU" if variant.is_multi else "")


@pytest.mark.parametrize("other", ["ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_the_npu_compiled_for_is_the_one_that_is_asked(tmp_path: Path, accelerator: str, other: str) -> None:
    """Products and MACs, as ID and CONFIG have them after a reset."""
    artifact = ethoscade.compile(tiny_conv(), accelerator=accelerator).artifact
    for device, expected in ((accelerator, 0), (other, 0 if accelerator == other else -6)):
        folder = tmp_path / device
        folder.mkdir(exist_ok=True)
        firmware = Firmware(artifact, folder, COptions(), driver=Driver(accelerator=device))
        assert firmware.run(steps_of("conv")[:1]).statuses == [expected], device


def test_the_devices_words_are_those_that_vela_expects() -> None:
    """Of the words the driver compares product, MACs, the stream's version and the architecture's."""
    for accelerator in ACCELERATORS:
        arch = create_default_arch(VelaAccelerator(accelerator))
        (id_word, own), config_word = device_words(accelerator), driver_actions.build_config_word(arch)
        found, made = ethos_u55_regs.id_r(), ethos_u55_regs.id_r()
        found.word, made.word = id_word, driver_actions.build_id_word()
        assert found.get_product_major() == {"u55": 4, "u65": 6}[accelerator.split("-")[1]]
        assert found.get_arch_major_rev() == made.get_arch_major_rev()
        assert found.get_arch_minor_rev() >= made.get_arch_minor_rev()
        ours, theirs = ethos_u55_regs.config_r(), ethos_u55_regs.config_r()
        ours.word, theirs.word = own, config_word
        for field in ("product", "macs_per_cc", "cmd_stream_version"):
            assert getattr(ours.bits, field) == getattr(theirs.bits, field), (accelerator, field)


@pytest.mark.parametrize("driver", DOES_NOT_WAIT)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_fails_keeps_what_the_driver_said(tmp_path: Path, driver: str, is_async: bool) -> None:
    """A refusal apart from an error; an error apart from a time-out by the firmware's hook, as the page has it."""
    knows_outcome = DRIVERS[driver].number >= 2402
    for fault, name in enumerate(("refused", "error", "time-out")):
        folder = tmp_path / name
        folder.mkdir()
        # Fast memory that is too small for anything is refused before the NPU begins.
        variant = replace(DRIVERS[driver], fast_memory=0 if fault else 16, fault=fault)
        hook = outcome_hook() if knows_outcome else ""
        artifact = artifact_of("conv" if fault else "fast")
        if not fault:
            variant = replace(variant, accelerator=artifact.accelerator)
        firmware = Firmware(artifact, folder, COptions(), driver=variant, is_async=is_async, more=hook)
        found = firmware.run(steps_of("conv" if fault else "fast")[:1])
        is_told = is_async or (knows_outcome and not variant.is_multi)
        assert found.statuses == [-8 if not fault and is_told else -3], name
        assert found.driver_result == -1 and not found.is_reserved
        if knows_outcome:
            # ETHOSU_JOB_RESULT_ERROR is 2, _TIMEOUT 1 (include/ethosu_driver.h); without a run nobody writes.
            assert found.token == {"refused": 0, "error": 2, "time-out": 1}[name]


def outcome_hook() -> str:
    """The example of docs/firmware.md."""
    page = (Path(__file__).parents[2] / "docs" / "firmware.md").read_text()
    (block,) = [text for text in re.findall(r"```c\n(.*?)```", page, re.DOTALL) if "ethosu_inference_end" in text]
    return str(block)


@pytest.mark.parametrize("driver", DRIVERS)
def test_caches_are_maintained_as_the_release_does(tmp_path: Path, driver: str) -> None:
    """Every region before and after a run; 24.11 the scratch region alone; up to 24.08 none after a run that failed."""
    for fault in (0, 1):
        folder = tmp_path / str(fault)
        folder.mkdir()
        variant = replace(DRIVERS[driver], fast_memory=0, fault=fault)
        found = Firmware(artifact_of("conv"), folder, COptions(), driver=variant).run(steps_of("conv")[:1])
        used_regions = [0, 1, 0] if variant.release == "24.11" else [1, 1, 0]
        assert found.told == [1, 1, 0] and found.flushed == used_regions
        is_skipped = fault and variant.number < 2411
        assert found.invalidated == ([0, 0, 0] if is_skipped else used_regions)


@pytest.mark.parametrize(
    ("driver", "is_async"), [*((name, False) for name in DRIVERS), *((name, True) for name in DOES_NOT_WAIT)]
)
def test_no_npu_is_said(tmp_path: Path, driver: str, is_async: bool) -> None:
    variant = replace(DRIVERS[driver], is_there=False)
    firmware = Firmware(artifact_of("conv"), tmp_path, COptions(), driver=variant, is_async=is_async)
    # A driver for several NPUs looks for one when it is given the program; a run that does not wait, before.
    expected = -3 if variant.release == "1.99" and not is_async else -2
    assert firmware.run(steps_of("conv")[:1]).statuses == [expected]


def test_statuses_and_calls_have_names(tmp_path: Path) -> None:
    found = Firmware(artifact_of("with_cpu"), tmp_path, COptions(), driver=DRIVERS["1.0"]).run([])
    known = ["RUNNING", "OK", "POINTER_MISSING", "NO_DRIVER", "NPU_FAILED", "MISALIGNED", "TOO_SMALL", "WRONG_NPU"]
    assert found.names[:11] == [*known, "KERNEL_FAILED", "NPU_REFUSED", "UNKNOWN"]
    graph = artifact_of("with_cpu").graph
    told = [
        c.name if isinstance(c, NpuCall) else graph.operators[c.operator].name for c in artifact_of("with_cpu").calls
    ]
    assert found.names[11:] == [*told, ""]


# --- several networks, several instances ----------------------------------------------------------------------------

_SEVERAL = """
import ctypes, json, sys
job = json.load(open(sys.argv[1]))
ctypes.CDLL(job["simulator"], ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(job["library"])
found = []
memories = {}
for step in job["steps"]:
    given = [ctypes.create_string_buffer(bytes.fromhex(data), len(data) // 2) for data in step["inputs"]]
    made = [ctypes.create_string_buffer(size) for size in step["outputs"]]
    ends = [(ctypes.c_void_p * len(group))(*map(ctypes.addressof, group)) for group in (given, made)]
    arguments = [ctypes.byref(end) for end in ends]
    if step["pool"] is not None:
        class Pools(ctypes.Structure):
            _fields_ = [("arena", ctypes.c_void_p), ("arena_size", ctypes.c_size_t), ("has_state", ctypes.c_uint32)]
        if step["pool"] not in memories:
            raw = ctypes.create_string_buffer(b"\\x5a" * (step["size"] + 64), step["size"] + 64)
            at = -(-ctypes.addressof(raw) // 32) * 32
            memories[step["pool"]] = raw, Pools(at, step["size"], 0)
        arguments.append(ctypes.byref(memories[step["pool"]][1]))
    status = getattr(library, step["function"])(*arguments, None)
    assert status == 0, status
    found.append([bytes(buffer.raw).hex() for buffer in made])
print(json.dumps(found))
"""


def build(folder: Path, files: Mapping[str, Path], *flags: str, compiler: str = "cc") -> Path:
    """A shared library of emitted files."""
    units = [str(path) for path in files.values() if path.suffix in (".c", ".S")]
    command = [compiler, *STRICT, "-O1", "-fPIC", "-shared", f"-I{folder}", *flags, *units]
    done = subprocess.run([*command, "-o", str(folder / "net.so")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "net.so"


def step_of(name: str, artifact: Artifact, given: Mapping[str, npt.NDArray[Any]], pool: str | None) -> dict[str, Any]:
    tensors = artifact.graph.tensors
    return {
        "function": f"tvmgen_{name}_run",
        "inputs": [given[tensors[t].name].tobytes().hex() for t in artifact.graph.given],
        "outputs": [tensors[t].size_bytes for t in artifact.graph.handed_out],
        "pool": pool,
        "size": whole_lines(artifact.arena_bytes),
    }


def run_several(folder: Path, library: Path, steps: Sequence[Mapping[str, Any]]) -> list[list[bytes]]:
    job = {"simulator": str(simulator.driver_interface()[1]), "library": str(library), "steps": steps}
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [sys.executable, "-c", _SEVERAL, str(folder / "job.json")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [[bytes.fromhex(data) for data in step] for step in json.loads(done.stdout)]


def as_bytes(outputs: Sequence[Sequence[npt.NDArray[Any]]]) -> list[list[bytes]]:
    return [[array.tobytes() for array in step] for step in outputs]


def test_networks_share_one_arena(tmp_path: Path) -> None:
    many = ethoscade.compile_many({"first": tiny_conv(), "second": resized_classifier()}, optimise="size")
    files = many.write_c(tmp_path, share_workspace=True)
    sizes = [one.workspace_bytes for one in many.networks.values()]
    assert many.workspace_bytes == max(sizes) and sizes[0] != sizes[1]
    library = build(tmp_path, files)
    given = {"first": steps_of("conv"), "second": steps_of("with_cpu")}
    order = ["first", "second", "first", "second"]
    steps = [
        step_of(name, many.networks[name].artifact, given[name][turn // 2], None) for turn, name in enumerate(order)
    ]
    expected = {"first": expected_of("conv"), "second": expected_of("with_cpu")}
    found = run_several(tmp_path, library, steps)
    assert found == as_bytes([expected[name][turn // 2] for turn, name in enumerate(order)])
    symbols = subprocess.run(["nm", "-S", str(library)], capture_output=True, text=True, check=True).stdout
    arenas = [line.split() for line in symbols.splitlines() if "arena" in line or "workspace" in line]
    assert [(int(size, 16), name) for _, size, _, name in arenas] == [
        (many.workspace_bytes, "tvmgen_shared_workspace")
    ], "one array, and no other"


def test_networks_share_fast_memory(tmp_path: Path) -> None:
    models = {"first": inverted_residuals(resolution=24), "second": tiny_conv()}
    many = ethoscade.compile_many(models, sram=12_000, **IN_DRAM)
    library = build(tmp_path, many.write_c(tmp_path, share_workspace=True))
    artifacts = {name: one.artifact for name, one in many.networks.items()}
    given = {name: random_inputs(artifact.graph, 4) for name, artifact in artifacts.items()}
    order = ["first", "second", "first"]
    found = run_several(tmp_path, library, [step_of(name, artifacts[name], given[name], None) for name in order])
    expected = {name: run_artifact_steps(artifacts[name], [given[name]])[0].outputs.values() for name in models}
    assert found == as_bytes([list(expected[name]) for name in order])
    symbols = subprocess.run(["nm", "-S", str(library)], capture_output=True, text=True, check=True).stdout
    held = {line.split()[3]: int(line.split()[1], 16) for line in symbols.splitlines() if "shared_workspace" in line}
    fast = max(whole_lines(artifact.fast_bytes or 0) for artifact in artifacts.values())
    assert held == {"tvmgen_shared_workspace": many.workspace_bytes, "tvmgen_shared_workspace_fast": fast}
    assert "_fast" not in symbols.replace("tvmgen_shared_workspace_fast", "")


def test_networks_that_keep_state_share_no_arena(tmp_path: Path) -> None:
    many = ethoscade.compile_many({"a": tiny_conv(), "b": network("exchanged")})
    with pytest.raises(ethoscade.CodegenError, match=r"keeps state in its arena .* cannot share"):
        many.write_c(tmp_path, share_workspace=True)
    assert not list(tmp_path.iterdir())
    assert many.write_c(tmp_path)


def test_instances_keep_their_own_state(tmp_path: Path) -> None:
    """Two streams in turn, each in its own pools, as if it were alone."""
    model, artifact = network("exchanged"), artifact_of("state")
    files = c_source.write(artifact, tmp_path, COptions(module_name="net", workspace="pools"))
    steps = inputs_of(model, 4)
    streams = {"left": steps, "right": steps[::-1]}
    turns = [(name, n) for n in range(4) for name in streams]
    found = run_several(
        tmp_path, build(tmp_path, files), [step_of("net", artifact, streams[name][n], name) for name, n in turns]
    )
    for name, stream in streams.items():
        alone = [list(result.outputs.values()) for result in run_artifact_steps(artifact, stream)]
        assert [outputs for (of, _), outputs in zip(turns, found, strict=True) if of == name] == as_bytes(alone)


def test_networks_in_one_translation_unit(tmp_path: Path) -> None:
    b = ModelBuilder("other")
    b.softmax(b.input((1, 12)))
    networks = [(artifact_of("cpu_only"), COptions()), (cpu_artifact(b.build(), "other"), COptions())]
    networks += [(artifact_of("conv"), COptions(module_name="first")), (artifact_of("conv"), COptions(module_name="b"))]
    files = c_source.all_units(networks)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    text = "".join(f'#include "{name}"\n' for name in files if name.endswith(".c"))
    (tmp_path / "all.c").write_text(text)
    done = subprocess.run(["cc", *STRICT, "-fsyntax-only", str(tmp_path / "all.c")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
