"""Build a wheel of this tree for a machine of one's choice, with libethoscade_npu for the same machine in it.

    python tools/build_wheel.py OUT [--target TRIPLE]

With a Linux target of Rust's the wheel runs on every Linux since glibc 2.17 (manylinux2014): zig links, cargo-zigbuild
and maturin call it. Without a target it is one for this machine and its C library. The tree's own libethoscade_npu is
replaced: for another machine's wheel take a tree of its own, as `release_check.py` does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import build_library

GLIBC = "2.17"
POLICY = "manylinux2014"


def main(out: Path, target: str = "") -> int:
    """Build, and leave the wheel in `out`; the exit status."""
    for_linux = "linux" in target
    if status := build_library.main(target=f"{target}.{GLIBC}" if for_linux else target):
        return status
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--quiet", "--out", str(out)]
    command += ["--target", target] if target else []
    command += ["--zig", "--compatibility", POLICY] if for_linux else []
    return subprocess.run(command, cwd=build_library.ROOT).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", default="")
    sys.exit(main(**vars(parser.parse_args())))
