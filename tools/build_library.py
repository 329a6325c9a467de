"""Build libethoscade_npu, the simulator as a C library without Python, and put it where the package looks for it.

    python tools/build_library.py [FOLDER] [--target TRIPLE[.GLIBC]]

A shared and a static library of the same crate that the extension module is made of, without its Python bindings. They
go to `lib` of FOLDER, by default the package in this tree; another FOLDER gets headers and the pkg-config file too, so
that it can be moved anywhere as a whole. Needs cargo, and to cross-compile or to link with an older glibc than this
machine's, cargo-zigbuild and zig. Windows has none: its linker knows no library that is found by where it lies.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "ethoscade"
CRATE = "ethoscade_core"
NAME = "libethoscade_npu"
HAD_BY = {"cargo": "install Rust, see https://rustup.rs", "cargo-zigbuild": "pip install cargo-zigbuild ziglang"}


def built(target: str = "") -> Iterator[Path]:
    """Compile, and yield the files that cargo made of the crate itself. Raises `SystemExit` if that fails."""
    # Programs look the library up by this name, wherever it was when they were linked.
    for_mac = "darwin" in (target or sys.platform)
    named = f"-install_name,@rpath/{NAME}.dylib" if for_mac else f"-soname,{NAME}.so"
    command = ["cargo-zigbuild" if "linux" in target else "cargo", "rustc"]
    command += ["--release", "--quiet", "--lib", "--crate-type", "cdylib,staticlib"]
    command += ["--target", target] if target else []
    # A folder of its own: the extension module's build has the same file names.
    command += ["--target-dir", str(ROOT / "target" / "library"), "--message-format", "json-render-diagnostics"]
    command += ["--", "-C", f"link-arg=-Wl,{named}", "-C", "strip=symbols"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SystemExit(f"cannot run {command[0]} ({error.strerror}): {HAD_BY[command[0]]}") from error
    if done.returncode:
        raise SystemExit(done.returncode)
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if told["reason"] == "compiler-artifact" and told["target"]["name"] == CRATE:
            yield from map(Path, told["filenames"])


def main(folder: Path = PACKAGE, target: str = "") -> int:
    """Build for this machine or for a target of Rust's, and install into `folder`; the exit status."""
    if "windows" in (target or sys.platform.replace("win32", "windows")):
        print(f"{NAME} is not made for Windows; the extension module has the same simulator", file=sys.stderr)
        return 0
    place = folder / "lib"
    place.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != PACKAGE:
        for part in ("include", "lib/pkgconfig"):
            shutil.copytree(PACKAGE / part, folder / part, dirs_exist_ok=True)
    for path in built(target):
        # A new file under the old name: programs that have the old one loaded keep it.
        fresh = place / f"{NAME}{path.suffix}.new"
        shutil.copyfile(path, fresh)
        fresh.replace(place / f"{NAME}{path.suffix}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--target", default="", help="a target of Rust's, for Linux with the oldest glibc behind it")
    sys.exit(main(**vars(parser.parse_args())))
