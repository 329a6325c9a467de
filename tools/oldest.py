"""The oldest Rust and Python that are promised: the library compiles with the one, its tests pass on the other.

    python tools/oldest.py

Rust is Cargo.toml's `rust-version`: an installed one, else Debian's package of that version, unpacked beside the build,
else rustup's. Python is pyproject.toml's `requires-python`, with the oldest releases of what the package depends on;
interpreters come in no package registry, so it must be installed. What cannot be had is named and left out; status 1
means that something that could be had failed. Nothing is installed outside `target/oldest`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from debian import said
from foreign import debian_rust

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "oldest"

# Readers, rewrites, lowering, scheduling, memory, files, simulator, command line: a minute of what a release must do.
TESTS = (
    "frontend", "rewrites", "lowering", "partition", "te", "compile", "codegen_tflite", "codegen_c_source", "memory",
    "memory_csv", "simulator", "pickling", "files", "command_line",
)  # fmt: skip
TESTED_WITH = ("ai-edge-litert", "matplotlib", "pytest", "hypothesis")


def is_rust(environment: dict[str, str], version: str) -> bool:
    """Whether cargo and rustc of an environment are of a version."""
    path = environment.get("PATH", os.environ["PATH"])
    tools = [shutil.which(tool, path=path) for tool in ("cargo", "rustc")]
    return all(
        tool and re.search(rf" {re.escape(version)}\.", said([tool, "--version"], **environment)) for tool in tools
    )


def rustup_rust(version: str) -> dict[str, str]:
    """A toolchain of rustup's, installed where it is missing; an environment that chooses it."""
    if shutil.which("rustup") is None:
        return {}
    if not any(
        name.startswith((f"{version}.", f"{version}-")) for name in said(["rustup", "toolchain", "list"]).split()
    ):
        said(["rustup", "toolchain", "install", version, "--profile", "minimal", "--no-self-update"])
    return {"RUSTUP_TOOLCHAIN": version}


def with_oldest_rust() -> bool:
    """Compile the library and its Python bindings; True unless that fails."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]["rust-version"]
    for find in (lambda _: {}, lambda wanted: debian_rust(WORK, f"{wanted}."), rustup_rust):
        environment = find(version)
        if is_rust(environment, version):
            break
    else:
        print(f"skipped: Rust {version} is neither installed nor had from Debian or rustup; clippy holds what it can")
        return True
    print(f"Rust {version}: the library and its Python bindings", flush=True)
    command = [
        "cargo",
        "check",
        "--quiet",
        "--locked",
        "--lib",
        "--features",
        "python",
        "--target-dir",
        str(WORK / "target"),
    ]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode == 0


def pythons(version: str) -> Iterator[str]:
    """Interpreters that might be of a version."""
    yield sys.executable
    yield f"python{version}"
    roots = [os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")]
    for root in filter(None, roots):
        yield from (str(path) for path in sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}")))


def with_oldest_python() -> bool:
    """Run tests on the oldest Python with the oldest dependencies; True unless they fail."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["requires-python"].removeprefix(">=")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    python = next((name for name in pythons(version) if said([name, "-c", asked]).strip() == version), None)
    if python is None:
        print(f"skipped: Python {version} is not installed, and no registry has it; ruff and mypy hold what they can")
        return True
    print(f"Python {version} with the oldest dependencies", flush=True)
    home = WORK / "python"
    own = str(home / "bin" / "python")
    extra = project["optional-dependencies"]["dev"]
    wanted = [*project["dependencies"], *(one for one in extra if one.startswith(TESTED_WITH))]
    for command in (
        [python, "-m", "venv", str(home)],
        [own, "-m", "pip", "install", "--quiet", "uv"],
        [own, "-m", "uv", "pip", "install", "--quiet", "--python", own, "--resolution", "lowest-direct", *wanted],
        [own, "-m", "pytest", "-q", *(f"tests/unit/test_{name}.py" for name in TESTS)],
    ):
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "python")}).returncode:
            return False
    return True


def main() -> int:
    """Both, one after the other; the exit status."""
    return int(not all([with_oldest_rust(), with_oldest_python()]))


if __name__ == "__main__":
    sys.exit(main())
