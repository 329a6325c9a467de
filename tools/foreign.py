"""Tools for another architecture on this machine: a Rust that compiles for it, a Python that runs its wheels.

    rust = foreign.rust("aarch64-unknown-linux-gnu", folder)
    python = foreign.python(folder)

What rustup or the system has comes first, then Debian's packages, unpacked below `folder`; each is None where it cannot
be had. Owns where these tools come from; knows nothing of what they are used for.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from debian import Packages, said

HERE = "x86_64-unknown-linux-gnu"
_MACHINES = {"x86_64-unknown-linux-gnu": "amd64", "aarch64-unknown-linux-gnu": "arm64"}
_PYTHON = "python3.11"


@dataclass(frozen=True)
class Tool:
    """A command, the environment that it wants, and where it is from."""

    command: tuple[str, ...]
    environment: dict[str, str]
    told: str


def rust(target: str, folder: Path) -> Tool | None:
    """A rustc that has the standard library of `target`, by its environment."""
    version = said(["rustc", "--version"]).split()
    installed = Path(said(["rustc", "--print", "sysroot"]).strip()) / "lib" / "rustlib" / target
    if version and (installed.is_dir() or said(["rustup", "target", "add", target])) and installed.is_dir():
        return Tool(("rustc",), {}, f"Rust {version[1]}")
    environment = debian_rust(folder, target=target)
    if not environment:
        return None
    told = said(["rustc", "--version"], **environment).split()
    return Tool(("rustc",), environment, f"Debian's Rust {told[1]}")


def debian_rust(folder: Path, version: str = "", target: str = HERE) -> dict[str, str]:
    """Debian's Rust, of a version or the newest, unpacked below `folder`; an environment in which it comes first.

    With the standard library of `target` as well. Empty where Debian has none.
    """
    if target not in _MACHINES:
        return {}
    here = Packages(folder / _MACHINES[HERE], _MACHINES[HERE])
    there = Packages(folder / _MACHINES[target], _MACHINES[target])
    for suffix in ("-web", ""):
        known = here.versions(f"rustc{suffix}")
        standard = f"libstd-rust{suffix}-dev"
        common = [one for one in known if one.startswith(version) and one in there.versions(standard)]
        tools = [f"{name}{suffix}={one}" for one in common[:1] for name in ("rustc", "cargo")]
        libraries = [f"{standard}={one}" for one in common[:1]]
        root = folder / f"rust-{version or 'newest'}"
        if (
            common
            and here.unpacked([*tools, *libraries], root)
            and (target == HERE or there.unpacked(libraries, root, with_needs=False))
        ):
            return _programs(root, folder / f"bin-{version or 'newest'}")
    return {}


def _programs(root: Path, folder: Path) -> dict[str, str]:
    """cargo and rustc of an unpacked system by an environment; their libraries are not those of what they call."""
    folder.mkdir(exist_ok=True)
    libraries = ":".join(str(root / part / "x86_64-linux-gnu") for part in ("usr/lib", "lib"))
    for name in ("cargo", "rustc"):
        script = folder / name
        script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {root}/usr/bin/{name} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": path, "RUSTC": str(folder / "rustc"), "CARGO": str(folder / "cargo")}


def python(folder: Path) -> Tool | None:
    """A Python of 64-bit Arm under QEMU's user emulation."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        if not Packages(folder / "amd64", "amd64").unpacked(["qemu-user-static"], folder / "qemu", with_needs=False):
            return None
        emulator = str(folder / "qemu" / "usr" / "bin" / "qemu-aarch64-static")
    root = folder / "arm64-root"
    if not Packages(folder / "arm64", "arm64").unpacked([_PYTHON, "libstdc++6"], root):
        return None
    command = (emulator, "-L", str(root), str(root / "usr" / "bin" / _PYTHON))
    told = said([*command, "-c", "import platform; print(platform.machine(), platform.python_version())"]).split()
    return Tool(command, {}, f"Debian's Python {told[1]} of {told[0]} in QEMU") if told else None
