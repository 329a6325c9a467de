"""The house in figures: rooms, floors, arrows, circles, longest files and functions, of one checkout or of several.

    python benches/house.py [CHECKOUT ...]

A room is a file or folder right below `python/ethoscade` or `rust/src`, an arrow says that one room names another, a
floor is a set of rooms that name only rooms below. Arrows that run up are those inside a circle of rooms; circles are
counted among modules too. Tests are left out everywhere. One column per checkout, this one by default.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

Module = tuple[str, ...]
Arrows = dict[Module, set[Module]]


def circles(arrows: Mapping[Module, set[Module]]) -> list[set[Module]]:
    """Sets of at least two names each of which reaches all the others."""

    def reached(start: Module) -> set[Module]:
        found, more = set(), [start]
        while more:
            for name in arrows.get(more.pop(), ()):
                if name not in found:
                    found.add(name)
                    more.append(name)
        return found

    reach = {name: reached(name) for name in arrows}
    together = {frozenset({a, *(b for b in reach[a] if a in reach.get(b, ()))}) for a in arrows if a in reach[a]}
    return [set(names) for names in together if len(names) > 1]


def floors(arrows: Mapping[Module, set[Module]]) -> int:
    """Length of the longest chain of names, circles counted as one."""
    merged = {name: min(ring) for ring in circles(arrows) for name in ring}
    below: Arrows = {}
    for name, used in arrows.items():
        me = merged.get(name, name)
        below.setdefault(me, set()).update({merged.get(u, u) for u in used} - {me})
    depth: dict[Module, int] = {}

    def floor(name: Module) -> int:
        if name not in depth:
            depth[name] = 1 + max((floor(used) for used in below.get(name, ())), default=0)
        return depth[name]

    return max(map(floor, below), default=0)


def rooms_of(arrows: Arrows) -> Arrows:
    """The same between rooms."""
    found: Arrows = {}
    for name, used in arrows.items():
        found.setdefault(name[:1], set()).update({u[:1] for u in used} - {name[:1]})
    return found


def known(modules: Iterable[Module], names: Module) -> Module:
    """The longest beginning of a dotted name that is a module."""
    there = set(modules)
    return next((names[:end] for end in range(len(names), 0, -1) if names[:end] in there), ())


def python_arrows(root: Path) -> tuple[Arrows, dict[Module, Path]]:
    """Modules of the package and which of them each imports, imports inside functions included."""
    files = {}
    for path in root.rglob("*.py"):
        *folders, name = path.relative_to(root).with_suffix("").parts
        if module := (*folders, name) if name != "__init__" else tuple(folders):
            files[module] = path
    arrows: Arrows = {module: set() for module in files}
    for module, path in files.items():
        package = list(module if path.stem == "__init__" else module[:-1])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
                base = tuple(name for name in base if name)
                used = {known(files, (*base, alias.name)) for alias in node.names}
                arrows[module] |= used - {(), module}
    return arrows, files


def rust_code(path: Path) -> str:
    """Without comments and without what only tests compile."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"^#\[cfg\(test\)\]\s*use [^;]*;", "", text, flags=re.MULTILINE)
    return re.sub(r"^#\[cfg\(test\)\]\s*mod \w+ \{.*?^\}", "", text, flags=re.MULTILINE | re.DOTALL)


def rust_arrows(root: Path) -> tuple[Arrows, dict[Module, Path]]:
    """Modules of the crate and which of them each names."""
    files: dict[Module, Path] = {}
    for path in root.rglob("*.rs"):
        *folders, name = path.relative_to(root).with_suffix("").parts
        tests = name == "samples" or any("test" in part for part in (*folders, name))
        if not tests and path.name != "lib.rs":
            files[(*folders, name) if name != "mod" else tuple(folders)] = path
    arrows: Arrows = {}
    for here, path in files.items():
        code = rust_code(path)
        found: set[Module] = set()
        for start, rest in re.findall(r"\b((?:crate|self|(?:super::)*super)::)((?:\w+::)*(?:\w+|\{[^}]*\}))", code):
            base = () if start.startswith("crate") else here[: len(here) - start.count("super")]
            names = re.match(r"(?:\w+::)*", rest)
            path_names = names.group().split("::")[:-1] if names else []
            ends = re.findall(r"(?:^|[{,])\s*(\w+)", rest[len("::".join([*path_names, ""])) :])
            found |= {known(files, (*base, *path_names, end)) for end in ends}
        found |= {(*here, n) for n in re.findall(r"(?<![\w:])(\w+)::", code) if (*here, n) in files}
        arrows[here] = found - {(), here}
    return arrows, files


def python_functions(path: Path) -> list[tuple[int, str]]:
    """Lines and names of a file's functions."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [((n.end_lineno or 0) - n.lineno + 1, f"{path.stem}.{n.name}") for n in nodes if isinstance(n, kinds)]


def rust_functions(path: Path) -> list[tuple[int, str]]:
    """Lines and names of a file's functions, by their indentation as rustfmt leaves it."""
    lines, found = path.read_text(encoding="utf-8").splitlines(), []
    for first, line in enumerate(lines):
        if head := re.match(r"( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)", line):
            end = next((i for i in range(first, len(lines)) if lines[i] == head.group(1) + "}"), first)
            found.append((end - first + 1, f"{path.stem}::{head.group(2)}"))
    return found


TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)", re.MULTILINE)
ASSOCIATED = {"Item", "IntoIter", "Output", "Target"}


def planner_names_twice(files: Mapping[Module, Path]) -> int:
    """Types of the planner that have a name in common with another one of it."""
    planner = [path for module, path in files.items() if module[0] not in ("npu", "usmp", "weights", "python")]
    names = Counter(name for path in planner for name in TYPE.findall(rust_code(path)))
    return sum(count > 1 for name, count in names.items() if name not in ASSOCIATED)


def python_names_twice(files: Mapping[Module, Path]) -> int:
    """Classes of the package that have a name in common."""
    names = Counter(
        node.name
        for path in files.values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    return sum(count > 1 for count in names.values())


def figures(checkout: Path) -> dict[str, str]:
    """What is printed of a checkout."""
    found: dict[str, str] = {}
    package, crate = checkout / "python" / "ethoscade", checkout / "rust" / "src"
    for language, (arrows, files), functions in (
        ("Python", python_arrows(package), python_functions),
        ("Rust", rust_arrows(crate), rust_functions),
    ):
        rooms = rooms_of(arrows)
        rings = circles(rooms)
        texts = {path: path.read_text(encoding="utf-8").count("\n") for path in files.values()}
        longest = max(texts, key=lambda path: texts[path])
        lines, name = max(entry for path in files.values() for entry in functions(path))
        up = sum(used in ring for ring in rings for room in ring for used in rooms[room])
        found |= {
            f"{language}: files, lines": f"{len(files)}, {sum(texts.values())}",
            f"{language}: rooms, floors, arrows": f"{len(rooms)}, {floors(rooms)}, {sum(map(len, rooms.values()))}",
            f"{language}: arrows that run up, circles of modules": f"{up}, {len(circles(arrows))}",
            f"{language}: longest file": f"{texts[longest]} {longest.relative_to(checkout).name}",
            f"{language}: longest function": f"{lines} {name}",
            f"{language}: files over 500 lines, functions over 60": (
                f"{sum(n > 500 for n in texts.values())}, "
                f"{sum(n > 60 for path in files.values() for n, _ in functions(path))}"
            ),
        }
    sources = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    found["Python: cast("] = str(sum(len(re.findall(r"\bcast\(", text)) for text in sources))
    found["Python: class names defined twice"] = str(python_names_twice(python_arrows(package)[1]))
    found["planner: type names defined twice"] = str(planner_names_twice(rust_arrows(crate)[1]))
    return found


def main() -> None:
    """Command line."""
    checkouts = [Path(name) for name in sys.argv[1:]] or [Path(__file__).resolve().parents[1]]
    columns = [figures(checkout) for checkout in checkouts]
    for row in columns[0]:
        print(f"{row:55}" + "".join(f"{column[row]:38}" for column in columns))


if __name__ == "__main__":
    main()
