"""Configuration files and command lines that make no sense, drawn at random from seeds.

They write where they are told to, which is never outside of the folder that they run in.

Owns the mutations and what must hold of each: a result or one of our errors, in one line, and never a traceback.
"""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path

from ethoscade import compile
from ethoscade.__main__ import main
from ethoscade.errors import EthoscadeError
from ethoscade.targets import target
from ethoscade.testing import tiny_conv

MODEL = tiny_conv()

BOARD = """[System_Config.Board]
core_clock=200e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=32
Sram_write_latency=32
OffChipFlash_clock_scale=0.125
OffChipFlash_burst_length=128
OffChipFlash_read_latency=64
OffChipFlash_write_latency=64

[Memory_Mode.Mine]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.MineOnly]
inherit=Memory_Mode.Mine
const_mem_area=Axi0
"""

NUMBERS = (
    "1e400", "1e-400", "1e-300", "1e300", "1e99999999", "1e-99999999", "0." + "3" * 27, "9" * 27, "9" * 5000,
    "nan", "inf",
    "-inf", "-1", "-0.0", "0", "0.0", "1/3", "1/0", "1/1e5", "0x10", "1_000", "", " ", "fast", "٣", "1.", ".5",
    "5e-324",
    "4294967296", "65536", "65537", "16777216", "16777217", "1e12", "1e13", "0.0001", "0.000001", "8192",
    "32.5", "%", "%(x)s",
    "${x}", "1;2", "1 2", "1,5", "١", "\x00", "+7", "--7", "1e+2", "1E2", "True", "None",
)  # fmt: skip
NAMES = (
    "Axi0", "Axi1", "axi1", "Axi2", "Sram", "sram", "Dram", "OffChipFlash", "OnChipFlash", "", "[", "]",
    "Memory_Mode.Mine",
    "Memory_Mode.MineOnly", "System_Config.Board", "Memory_Mode.Nobody", "DEFAULT", "\u2028", "x" * 5000,
    "\ud7ff", "=", ":",
)  # fmt: skip


def configuration(rng: random.Random) -> bytes:
    """A vela.ini with one or two mistakes, some of them harmless."""
    lines = BOARD.splitlines()
    for _ in range(rng.randint(1, 2)):
        _LINE_MUTATIONS[rng.randrange(len(_LINE_MUTATIONS))](rng, lines)
    data = "\n".join(lines).encode("utf-8", "replace")
    return _BYTE_MUTATIONS[rng.randrange(len(_BYTE_MUTATIONS))](rng, data) if rng.random() < 0.2 else data


def _renumber(rng: random.Random, lines: list[str]) -> None:
    places = [number for number, line in enumerate(lines) if "=" in line]
    if places:
        place = rng.choice(places)
        lines[place] = f"{lines[place].partition('=')[0]}={rng.choice(NUMBERS)}"


def _rename(rng: random.Random, lines: list[str]) -> None:
    places = [number for number, line in enumerate(lines) if "=" in line]
    if places:
        place = rng.choice(places)
        lines[place] = f"{lines[place].partition('=')[0]}={rng.choice(NAMES)}"


def _rekey(rng: random.Random, lines: list[str]) -> None:
    if lines:
        place = rng.randrange(len(lines))
        lines[place] = f"{rng.choice(NAMES)}={lines[place].partition('=')[2]}"


def _delete(rng: random.Random, lines: list[str]) -> None:
    if lines:
        del lines[rng.randrange(len(lines))]


def _double(rng: random.Random, lines: list[str]) -> None:
    if lines:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))


def _shuffle(rng: random.Random, lines: list[str]) -> None:
    rng.shuffle(lines)


def _inherit(rng: random.Random, lines: list[str]) -> None:
    headers = [number for number, line in enumerate(lines) if line.startswith("[")]
    if headers:
        lines.insert(rng.choice(headers) + 1, f"inherit={rng.choice(NAMES)}")


def _reheader(rng: random.Random, lines: list[str]) -> None:
    headers = [number for number, line in enumerate(lines) if line.startswith("[")]
    if headers:
        lines[rng.choice(headers)] = f"[{rng.choice(NAMES)}]"


def _continue(rng: random.Random, lines: list[str]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), f"  {rng.choice(NUMBERS)}")


def _bare(rng: random.Random, lines: list[str]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(NAMES))


_LINE_MUTATIONS = (
    _renumber, _renumber, _renumber, _rename, _rename, _rekey, _delete, _double, _shuffle, _inherit, _inherit,
    _reheader,
    _continue, _bare,
)  # fmt: skip


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _encode(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-8-sig", "utf-16", "utf-32", "utf-7")))


def _grow(rng: random.Random, data: bytes) -> bytes:
    filling = rng.choice((b"#", b"\n", b"\0", b"a=1\n", b"[x]\n", b" ", b"\xff"))
    return data + filling * (rng.choice((1 << 10, 1 << 21)) // len(filling))


_BYTE_MUTATIONS = (_cut, _flip, _encode, _grow)


def read(path: Path, rng: random.Random) -> str:
    """How the configuration at `path` ended: our error's name, or what a compilation for it came to."""
    accelerator = rng.choice(("ethos-u55-256", "ethos-u55-32", "ethos-u65-256"))
    mode = rng.choice(("Mine", "MineOnly"))
    try:
        target.load_target(accelerator, "Board", mode, path)
        compiled = compile(MODEL, config=path, accelerator=accelerator, system_config="Board", memory_mode=mode)
        compiled.timing()
    except EthoscadeError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 20_000, str(error)[:200]  # noqa: PT017
        return type(error).__name__
    return "compiled"


_VALUES = (
    "", "0", "1", "-1", "2", "3KiB", "4096", "0.5MiB", "64", "1e-99999999", "1e99999999", "9" * 5000,
    "99999999999999999999",
    "nan", "inf", "1/64", "1/0", "٣", "ethos-u55-256", "ethos-u65-512", "None", "x", "tflite",
    "tflite,c,mlf,raw", "raw", ",",
    "size", "performance", "c", "simulator", "Shared_Sram", "Sram_Only", "Dedicated_Sram", "/dev/null", ".", "a/b/c",
    "board.ini", "model.tflite", "model_ethosu.tflite", "buffers.csv", "model.npz", "x" * 300, "\udcff", "-",
    "--", "--json",
    "picture.png", "best", "exact", "-h",
)  # fmt: skip
_FLAGS = {
    "compile": (
        "-o", "--output", "--accelerator", "--system-config", "--memory-mode", "--config", "--sram",
        "--optimise", "--epsilon",
        "--emit", "--explain", "--verify", "--seeds", "--json", "--arena-cache-size", "--trace", "--debug-db",
    ),
    "frontier": ("--accelerator", "--system-config", "--memory-mode", "--config", "--epsilon", "--plot", "--json"),
    "verify": ("--sram", "--seeds", "--target", "--json", "--accelerator", "--epsilon"),
    "simulate": ("--inputs", "--outputs", "--seed", "--reference", "--timing", "--trace", "--json", "--memory-mode"),
    "explore": ("-o", "--system-config", "--memory-mode", "--config", "--json"),
    "plan-memory": ("--capacity", "--algorithm", "--seed", "--iterations", "--threads", "--output", "--plot", "--json"),
    "supported-ops": ("--accelerator", "--markdown", "--json"),
}  # fmt: skip
_RIGHT = {
    "-o": ("out", "a/b/c"), "--output": ("placed.csv",), "--accelerator": ("ethos-u55-128", "ethos-u65-256"),
    "--system-config": ("Board", "Ethos_U55_Deep_Embedded"), "--memory-mode": ("Shared_Sram", "Sram_Only", "Mine"),
    "--config": ("board.ini",), "--sram": ("4KiB", "4096", "0.5MiB"), "--arena-cache-size": ("4096",),
    "--optimise": ("size", "performance"), "--epsilon": ("0", "1/64", "0.5"), "--emit": ("tflite,c", "raw,mlf"),
    "--seeds": ("1",), "--target": ("simulator",), "--seed": ("0", "7"), "--reference": ("model.tflite",),
    "--outputs": ("outputs.npz",), "--trace": ("trace.json",), "--debug-db": ("debug.xml",),
    "--capacity": ("4096", "20"),
    "--algorithm": ("best", "exact", "hill_climb"), "--iterations": ("100",), "--threads": ("2",),
}  # fmt: skip
_SWITCHES = frozenset({"--explain", "--verify", "--json", "--timing", "--markdown"})
_SUBJECTS = (
    "model.tflite",
    "model.tflite",
    "model_ethosu.tflite",
    "buffers.csv",
    "missing",
    "",
    ".",
    "/dev/null",
    "board.ini",
)


def prepare_folder(folder: Path) -> None:
    """The files that command lines name."""
    (folder / "model.tflite").write_bytes(MODEL)
    compile(MODEL).save(folder / "model_ethosu.tflite")
    (folder / "buffers.csv").write_text("id,lower,upper,size\na,0,2,16\nb,1,3,32\n", encoding="utf-8")
    (folder / "board.ini").write_text(BOARD, encoding="utf-8")


def command_line(rng: random.Random) -> list[str]:
    """A command with a subject and up to four options; about half of them are wrong somewhere."""
    command = rng.choice(list(_FLAGS))
    right = {"simulate": "model_ethosu.tflite", "explore": "model_ethosu.tflite", "plan-memory": "buffers.csv"}.get(
        command, "model.tflite"
    )
    words = [command]
    if command != "supported-ops":
        words += [right if rng.random() < 0.8 else rng.choice(_SUBJECTS)]
    for _ in range(rng.randint(0, 4)):
        flag = rng.choice(_FLAGS[command])
        values = _RIGHT[flag] if flag in _RIGHT and rng.random() < 0.8 else _VALUES
        words += [flag] if flag in _SWITCHES else [flag, rng.choice(values)]
    return words


def run(words: list[str]) -> str:
    """The exit status of a command line, run in this process and in this folder. Anything but a status escapes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else -1
    assert status in (0, 1, 2, 3), (words, status)
    said = err.getvalue()
    assert "Traceback" not in said, said
    assert status != 1 or (said.startswith("ethoscade") and said.count("\n") >= 1), (words, said)
    return f"status {status}"
