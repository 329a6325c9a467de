"""Whether a release could be made of this tree: what would be uploaded is built, judged, installed and put to work.

    python tools/release_check.py [--tests all|some|none] [--only WORD ...] [--keep FOLDER]

1. One version everywhere, licences current, the sdist complete.
2. The sdist, unpacked where no git is: `make test` (`--tests all`), or the library and tests of files (`some`).
3. Wheels for Linux on x86_64 and aarch64, judged by auditwheel, each with libethoscade_npu and licences.
4. The wheel in a new environment of every Python from 3.10 that is installed, and under emulation of the other
   architecture: the command line, the demo with its verification, the same bytes from all of them.

What cannot be had on this machine is said to be left out. Status 1 if anything failed. Nothing is written but below
`target/release-check` (or FOLDER), where the files to upload are in `dist`; rustup keeps a target that it could add.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import foreign
import third_party
from debian import said
from oldest import pythons, tomllib

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
LIBRARY = "ethoscade/lib/libethoscade_npu.so"
LICENCES = ("LICENSE", "NOTICE", "THIRD_PARTY_LICENSES.md")
DEMO = Path("out/demo")
# Of the tests: those that read files of the tree, and one of each great room.
SOME = ("documents", "imports", "stubs", "release", "compile", "codegen_c_source", "simulator_library", "verification")


class Failed(Exception):
    """A check that failed, in words."""


class LeftOut(Exception):
    """A check that cannot be made on this machine, and why."""


@dataclass
class Check:
    """The checks in their order: where they work, what they said."""

    folder: Path
    tests: str
    rows: list[tuple[str, str, str, float]] = field(default_factory=list)

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    def run(self, name: str, check: Callable[[], str]) -> None:
        """Make one check and keep what it said."""
        print(f"{name} ...", flush=True)
        started = time.perf_counter()
        try:
            verdict, told = "ok", check()
        except LeftOut as reason:
            verdict, told = "left out", str(reason)
        except Failed as reason:
            verdict, told = "FAILED", str(reason)
        self.rows.append((name, verdict, told, time.perf_counter() - started))
        print(f"    {verdict}: {told}", flush=True)

    def table(self) -> str:
        """All that was checked, as Markdown."""
        lines = ["| check | result | what was found | s |", "| --- | --- | --- | ---: |"]
        lines += [f"| {name} | {verdict} | {told} | {seconds:.0f} |" for name, verdict, told, seconds in self.rows]
        return "\n".join(lines)


def run(command: Sequence[str | Path], where: Path, **more: str) -> str:
    """What a command prints. Raises `Failed` with the last of it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=where,
        env={**environment, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = " / ".join(done.stdout.strip().splitlines()[-6:])
        raise Failed(f"{Path(str(command[0])).name} {command[1]} ended with {done.returncode}: {last}")
    return done.stdout


def new_environment(python: str, folder: Path) -> Path:
    """The interpreter of a new virtual environment."""
    shutil.rmtree(folder, ignore_errors=True)
    run([python, "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def version() -> str:
    """The version of the tree."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]["version"])


def tools(check: Check) -> Path:
    """The interpreter of an environment with what the extra `release` lists."""
    python = new_environment(sys.executable, check.folder / "tools")
    run([python, ROOT / "tools" / "install_dependencies.py", "release"], ROOT)
    return python


def words(check: Check) -> str:
    """Version and licences."""
    now = version()
    for page, wanted in (("README.md", f"Status: {now}"), ("CHANGELOG.md", f"## {now}")):
        if wanted not in (ROOT / page).read_text(encoding="utf-8"):
            raise Failed(f"{page} does not say '{wanted}'")
    text = third_party.page(third_party.metadata())
    if third_party.PAGE.read_text(encoding="utf-8") != text:
        raise Failed("THIRD_PARTY_LICENSES.md is not what Cargo.lock says: run tools/third_party.py")
    return f"{now}; {text.count('| [')} crates linked"


def sdist(check: Check, python: Path) -> str:
    """Every file that git knows or would take, and no other, in the sdist."""
    run([python, "-m", "maturin", "sdist", "--out", check.dist], ROOT)
    path = check.dist / f"ethoscade-{version()}.tar.gz"
    known = set(
        said(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]).split("\n")
    ) - {""}
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if known and held != known | {"PKG-INFO"}:
        raise Failed(f"the sdist and git differ in {sorted(held ^ (known | {'PKG-INFO'}))[:6]}")
    return f"{len(held)} files, {path.stat().st_size / 1e6:.1f} MB"


def unpacked(check: Check, name: str) -> Path:
    """The sdist in a folder of its own, with nothing else. Raises `LeftOut` if there is none."""
    folder, path = check.folder / name, check.dist / f"ethoscade-{version()}.tar.gz"
    if not path.exists():
        raise LeftOut("there is no sdist to begin with")
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(path) as archive:
        archive.extractall(folder, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    return folder / f"ethoscade-{version()}"


def sdist_tests(check: Check) -> str:
    """The sdist's own tests, in an environment of its own."""
    tree = unpacked(check, "sdist")
    if check.tests == "all":
        last = run(["make", "test"], tree).strip().splitlines()[-1]
        return f"`make test`: {last.strip('= ')}"
    python = new_environment(sys.executable, check.folder / "sdist-environment")
    run([python, "-m", "pip", "install", "--quiet", f"{check.dist / tree.name}.tar.gz[dev]"], check.folder)
    last = run([python, "-m", "pytest", "-q", *(f"tests/unit/test_{name}.py" for name in SOME)], tree)
    return f"pip install, then tests of {len(SOME)} files: {last.strip().splitlines()[-1]}"


def wheel(check: Check, python: Path, target: str) -> str:
    """A wheel for `target`, as auditwheel sees it."""
    compiler = foreign.rust(target, check.folder / "foreign")
    if compiler is None:
        raise LeftOut("no Rust that has its standard library, from rustup or Debian")
    path = f"{python.parent}:{compiler.environment.get('PATH', os.environ['PATH'])}"
    tree = unpacked(check, target)
    run([python, tree / "tools" / "build_wheel.py", check.dist, "--target", target], tree,
        **{**compiler.environment, "PATH": path})  # fmt: skip
    built = wheel_of(check, target)
    told = run([python, "-m", "auditwheel", "show", built], tree, PATH=path)
    if f'"manylinux_2_17_{target.partition("-")[0]}"' not in told:
        raise Failed(f"auditwheel: {' '.join(told.split())}")
    names = zipfile.ZipFile(built).namelist()
    wanted = [LIBRARY, "ethoscade/_core.abi3.so", "ethoscade/include/ethoscade_npu.h", "ethoscade/py.typed"]
    wanted += [f"ethoscade-{version()}.dist-info/licenses/{name}" for name in LICENCES]
    if missing := [name for name in wanted if name not in names]:
        raise Failed(f"{built.name} lacks {', '.join(missing)}")
    if stray := [name for name in names if not name.startswith("ethoscade") or name.endswith((".a", ".new"))]:
        raise Failed(f"{built.name} has {', '.join(stray[:4])}")
    shutil.rmtree(tree)
    run([python, "-m", "twine", "check", "--strict", built, check.dist / f"ethoscade-{version()}.tar.gz"], check.folder)
    return f"{built.name}, {built.stat().st_size / 1e6:.1f} MB, {compiler.told}"


def wheel_of(check: Check, target: str) -> Path:
    """The wheel that was built for `target`. Raises `LeftOut` if there is none."""
    found = sorted(check.dist.glob(f"*manylinux*_{target.partition('-')[0]}.whl"))
    if not found:
        raise LeftOut("there is no wheel to try")
    return found[-1]


def digest(folder: Path) -> str:
    """A short hash of what the demo compiled."""
    return hashlib.sha256((folder / DEMO / "mobilenet_v1_ethosu.tflite").read_bytes()).hexdigest()[:12]


def on_python(check: Check, name: str) -> str:
    """The wheel at work in a new environment of a Python that is installed."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = next((one for one in pythons(name) if said([one, "-c", asked]).strip() == name), None)
    if found is None:
        raise LeftOut("not installed")
    built = wheel_of(check, TARGETS[0])
    folder = check.folder / f"python{name}"
    python = new_environment(found, folder)
    run([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", f"{built}[verify]"], folder)
    if run([folder / "bin" / "ethoscade", "--version"], folder).split()[-1] != version():
        raise Failed("ethoscade --version is another one")
    run([python, "-c", "import ethoscade.run.simulator as s; print(s.library())"], folder)
    run([python, ROOT / "examples" / "demo.py"], folder)
    check.folder.joinpath("demo").mkdir(exist_ok=True)
    shutil.copyfile(folder / DEMO / "mobilenet_v1.tflite", check.folder / "demo" / "mobilenet_v1.tflite")
    told = run([python, "--version"], folder).split()[-1]
    return f"{told}: the demo is bit-exact, its file {digest(folder)}"


def on_arm(check: Check) -> str:
    """The aarch64 wheel at work under emulation."""
    built = wheel_of(check, TARGETS[1])
    model = check.folder / "demo" / "mobilenet_v1.tflite"
    python = foreign.python(check.folder / "foreign")
    if python is None or not model.exists():
        raise LeftOut("no Python of aarch64, from Debian and QEMU" if python is None else "the demo was left out")
    packages = check.folder / "aarch64-packages"
    shutil.rmtree(packages, ignore_errors=True)
    platforms = [word for glibc in (17, 27, 28) for word in ("--platform", f"manylinux_2_{glibc}_aarch64")]
    platforms += ["--platform", "manylinux2014_aarch64", "--python-version", "3.11"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", packages]
    run([*install, *platforms, built], check.folder)
    where = {"PYTHONPATH": str(packages)}
    command = [*python.command, "-m", "ethoscade"]
    if run([*command, "--version"], check.folder, **where).split()[-1] != version():
        raise Failed("ethoscade --version is another one")
    out = packages / DEMO
    run([*command, "compile", model, "--sram", "300KiB", "-o", out], check.folder, **where)
    return f"{python.told}: compiles the demo's model into {digest(packages)}"


def same_bytes(check: Check) -> str:
    """Every interpreter and architecture made the same file."""
    found = {told.split()[-1] for name, verdict, told, _ in check.rows if verdict == "ok" and name.startswith("on ")}
    if not found:
        raise LeftOut("nothing was compiled")
    if len(found) > 1:
        raise Failed(f"{len(found)} different files: {', '.join(sorted(found))}")
    return next(iter(found))


def main() -> int:
    """All checks, and their table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", choices=("all", "some", "none"), default="some", help="of the sdist's own")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="checks whose names have one of these")
    parser.add_argument("--keep", type=Path, default=ROOT / "target" / "release-check", metavar="FOLDER")
    arguments = parser.parse_args()
    check = Check(arguments.keep.resolve(), arguments.tests)
    if not arguments.only:
        shutil.rmtree(check.dist, ignore_errors=True)
    check.dist.mkdir(parents=True, exist_ok=True)
    python = tools(check)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("version and licences", lambda: words(check)),
        ("sdist", lambda: sdist(check, python)),
        *((f"wheel {target}", lambda target=target: wheel(check, python, target)) for target in TARGETS),
        *((f"on Python {name}", lambda name=name: on_python(check, name)) for name in VERSIONS),
        ("on aarch64", lambda: on_arm(check)),
        ("same bytes", lambda: same_bytes(check)),
    ]
    if check.tests != "none":
        steps.append(("sdist's tests", lambda: sdist_tests(check)))
    for name, step in steps:
        if not arguments.only or any(word in name for word in arguments.only):
            check.run(name, step)
    print(check.table())
    return int(any(verdict == "FAILED" for _, verdict, _, _ in check.rows))


if __name__ == "__main__":
    sys.exit(main())
