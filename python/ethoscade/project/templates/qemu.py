"""QEMU's board mps3-an547, a Cortex-M55 without an NPU: jobs go to the simulator. Owns its build and its start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..description import Description
from ..memory_in_common import started
from ..template import CMAKE, MAKE, Board, Project, Template, Tool, cmake_build, driven, library_of, packaged

_NAME = "qemu-mps3-an547"
_ELF = "firmware.elf"

_COMPILER = Tool(
    "arm-none-eabi-gcc",
    "Arm's GCC (Debian, Ubuntu: gcc-arm-none-eabi)",
    "newlib for Arm (Debian, Ubuntu: libnewlib-arm-none-eabi; Fedora: arm-none-eabi-newlib)",
)
_QEMU = Tool("qemu-system-arm", "QEMU 7 or newer (Debian, Ubuntu: qemu-system-arm)")

# What the board has, and what of it the firmware's platform.c and linker.ld use.
_DDR_BYTES = 2 << 30
_USED_DDR_BYTES = 256 << 20
# An instruction is 2^5 ns of QEMU's clock, and SysTick counts at 32 MHz.
_SHIFT = 5
_INSTRUCTIONS_PER_TICK = 1e9 / 32e6 / (1 << _SHIFT)


def _files(description: Description) -> Mapping[str, str]:
    own = packaged(_NAME, ["platform.c", "startup.c"], description)
    more = {"cmsis_nn": library_of(description)}
    return {
        **packaged(_NAME, ["CMakeLists.txt", "toolchain.cmake", "linker.ld", "README.md"], description, more),
        **driven(description),
        **{f"src/{name}": text for name, text in own.items()},
    }


def _build(project: Project) -> Path:
    toolchain = (project.folder / "toolchain.cmake").resolve()
    return cmake_build(project, _ELF, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")


def _command(program: Path, memory: Path) -> list[str]:
    backend = f"memory-backend-file,id=ddr,size={_DDR_BYTES},mem-path={memory},share=on"
    return [
        "qemu-system-arm", "-machine", "mps3-an547,memory-backend=ddr", "-object", backend, "-icount",
        f"shift={_SHIFT},sleep=off", "-kernel", str(program), "-display", "none", "-monitor", "none", "-serial",
        "stdio",
    ]  # fmt: skip


def _start(project: Project) -> Board:
    program = project.folder / "build" / _ELF
    used = _USED_DDR_BYTES if project.description.has_npu else 0
    return started(lambda memory: _command(program, memory), _DDR_BYTES, used)


QEMU = Template(
    name=_NAME,
    summary="a Cortex-M55 emulated by QEMU, the NPU by the simulator",
    files=_files,
    build=_build,
    no_board="QEMU loads the firmware when it starts; use `ethoscade run`",
    start=_start,
    build_tools=(CMAKE, MAKE, _COMPILER),
    run_tools=(_QEMU,),
    instructions_per_tick=_INSTRUCTIONS_PER_TICK,
)
