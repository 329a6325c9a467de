"""List whose code is compiled into wheels, with the licences that it is used under: THIRD_PARTY_LICENSES.md.

    python tools/third_party.py [--check]

Reads what cargo resolves for the extension module and for libethoscade_npu, on all platforms. Crates that run while
compiling (procedural macros, build scripts) leave nothing of theirs behind. A crate that offers Apache-2.0 is used
under it; of any other the texts of its licences are copied. Knows nothing of Python's dependencies: pip fetches those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "THIRD_PARTY_LICENSES.md"
OURS = "Apache-2.0"
_LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")

_HEAD = """\
<!-- Written by `python tools/third_party.py` from Cargo.lock. -->
# Other projects' code in wheels

ethoscade's wheels hold the extension module `_core` and the simulator libethoscade_npu. Both have code of these crates
compiled into them, the second none of pyo3's. They are used under the licence in the last column; the text of
Apache-2.0 is in the file LICENSE.

"""
_STD = """
Both have code of Rust's standard library in them, too, in the version of the compiler that built the wheel:
[rust-lang/rust](https://github.com/rust-lang/rust), MIT OR Apache-2.0, used under Apache-2.0, with what it is made of.

Python packages that ethoscade needs are no part of its wheels: pip installs them beside it.
"""

_TEXT = "\n## {}: {}\n\n```text\n{}\n```\n"


def linked(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The packages of `cargo metadata` whose code ends up in the libraries of its root package, by name."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    seen, waiting = {root}, [root]
    while waiting:
        for wanted in nodes[waiting.pop()]["deps"]:
            name = wanted["pkg"]
            is_linked = any(kind["kind"] is None for kind in wanted["dep_kinds"])
            runs_here = any("proc-macro" in target["kind"] for target in packages[name]["targets"])
            if is_linked and not runs_here and name not in seen:
                seen.add(name)
                waiting.append(name)
    yield from sorted((packages[name] for name in seen - {root}), key=lambda package: package["name"])


def page(metadata: Mapping[str, Any]) -> str:
    """The text of the page. Raises `SystemExit` for a crate whose licence nobody can read here."""
    rows, texts = [], []
    for package in linked(metadata):
        licence = package["license"]
        where = f"[{package['name']}]({package['repository']})"
        if licence and OURS in licence.replace("/", " OR ").split(" OR "):
            used = OURS
        else:
            used = licence or "its own"
            folder = Path(package["manifest_path"]).parent
            files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(_LICENCE_FILES))
            if not files:
                raise SystemExit(f"{package['name']} {package['version']} comes without a licence: do not link it")
            texts += [
                _TEXT.format(package["name"], path.name, path.read_text(encoding="utf-8").strip()) for path in files
            ]
        rows.append(f"| {where} | {package['version']} | {licence or 'none named'} | {used} |\n")
    head = "| crate | version | licence | used under |\n| --- | --- | --- | --- |\n"
    return _HEAD + head + "".join(rows) + _STD + "".join(texts)


def metadata() -> dict[str, Any]:
    """What cargo resolves, as Cargo.lock has it. Raises `SystemExit` with what cargo said."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--features", "python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def main() -> int:
    """Write the page, or with `--check` compare it; the exit status."""
    text = page(metadata())
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is not what Cargo.lock says: run tools/third_party.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
