"""Build libethoscade_npu, the simulator as a C library without Python, and put it where the package looks for it.

    python tools/build_library.py [FOLDER]

A shared and a static library of the same crate that the extension module is made of, without its Python bindings. They
go to `lib` of FOLDER, by default the package in this tree; another FOLDER gets headers and the pkg-config file too, so
that it can be moved anywhere as a whole. Needs cargo, nothing else.
"""

from __future__ import annotations

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


def built() -> Iterator[Path]:
    """Compile, and yield the files that cargo made of the crate itself. Raises `SystemExit` if that fails."""
    # Programs look the library up by this name, wherever it was when they were linked.
    named = f"-install_name,@rpath/{NAME}.dylib" if sys.platform == "darwin" else f"-soname,{NAME}.so"
    command = ["cargo", "rustc", "--release", "--quiet", "--lib", "--crate-type", "cdylib,staticlib"]
    # A folder of its own: the extension module's build has the same file names.
    command += ["--target-dir", str(ROOT / "target" / "library"), "--message-format", "json-render-diagnostics"]
    command += ["--", "-C", f"link-arg=-Wl,{named}", "-C", "strip=symbols"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SystemExit(f"cannot run cargo ({error.strerror}): install Rust, see https://rustup.rs") from error
    if done.returncode:
        raise SystemExit(done.returncode)
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if told["reason"] == "compiler-artifact" and told["target"]["name"] == CRATE:
            yield from map(Path, told["filenames"])


def main(folder: Path = PACKAGE) -> int:
    """Build, and install into `folder`; the exit status."""
    target = folder / "lib"
    target.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != PACKAGE:
        for part in ("include", "lib/pkgconfig"):
            shutil.copytree(PACKAGE / part, folder / part, dirs_exist_ok=True)
    for path in built():
        # A new file under the old name: programs that have the old one loaded keep it.
        fresh = target / f"{NAME}{path.suffix}.new"
        shutil.copyfile(path, fresh)
        fresh.replace(target / f"{NAME}{path.suffix}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
