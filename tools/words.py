"""Hold names, comments, pages and commit titles to the rules of plain words.

    python tools/words.py         print what breaks a rule more often than `words.json` allows, in files changed last
    python tools/words.py --all   print everything that breaks a rule

Owns the rules and the cutting of text into sentences. `words.json` has phrases with their plain words, exceptions, and
how often old text may break each rule: these numbers may only fall.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Titles are held to their shape from the commit after this one.
BASE = "cd4e7a7b66ab"
LONGEST_SENTENCE, LONGEST_FIRST, LONGEST_TITLE = 30, 20, 72
RULES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
BANNED: dict[str, str] = RULES["banned"]
ALLOWED: dict[str, int] = RULES["allowed"]
BAN = re.compile(rf"\b(?:{'|'.join(BANNED)})\b".replace(" ", r"\s+"), re.IGNORECASE)
TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|class) ([A-Z][a-zA-Z0-9]*)")
NOT_IMPERATIVE = re.compile(r"(?:\w{2,}(?:ed|ing)|\w{2,}[^s]s|is|has|the|an?|no)$")
TITLE = re.compile(r"[a-z][\w./, -]*: (?P<verb>[a-z][\w-]*) \S")

Finding = tuple[int, str, str]
Findings = dict[str, list[Finding]]
TITLES = "commits"


def sentences(text: str) -> list[str]:
    """The sentences of one paragraph; code in backticks counts as one word."""
    text = re.sub(r"`[^`]*`", "Code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))
    return [part for part in re.split(r"(?<=[.!?])[)*\"']*\s+(?=[\"'(*\[]*[A-Z0-9])", " ".join(text.split())) if part]


def words(sentence: str) -> int:
    """How many words a sentence has; marks between spaces are none."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs, list items and table cells of a page, each with its first line's number; no code, no headings."""
    text, first, fence = "", 0, False
    for number, line in enumerate([*page.splitlines(), ""], start=1):
        bare, was_fence = line.strip(), fence
        fence ^= bare.startswith(("```", "~~~"))
        is_code = fence or was_fence or bare.startswith(("#", "<"))
        if text and (is_code or not bare or re.match(r"[|>] ?|[-*+] |\d+\. ", bare)):
            yield first, text
            text = ""
        if is_code or not bare:
            continue
        if bare.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", bare)[1:-1] if re.search(r"\w", cell))
        else:
            first = first if text else number
            text += "\n" * bool(text) + re.sub(r"^(?:[->*+] |[0-9]+[.] )", "", bare)


def banned(number: int, text: str) -> Iterator[Finding]:
    """Each phrase of `text` that has a plain word; what stands in backticks is quoted."""
    blank = re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), text)
    for match in BAN.finditer(blank):
        found = " ".join(match[0].split())
        plain = next(
            plain for phrase, plain in BANNED.items() if re.match(phrase.split("(?!")[0], found, re.IGNORECASE)
        )
        yield number + text.count("\n", 0, match.start()), "banned words", f'"{found}": say {plain}'


def page_findings(page: str) -> Iterator[Finding]:
    """What breaks a rule in a page of Markdown."""
    for number, text in paragraphs(page):
        yield from banned(number, text)
        for sentence in sentences(text):
            if (count := words(sentence)) > LONGEST_SENTENCE:
                yield number, "long sentence", f"{count} words: {sentence[:80]}"


def doc_findings(number: int, doc: str) -> Iterator[Finding]:
    """What breaks a rule in one docstring or block of Rust's doc comments."""
    prose = re.sub(r"```.*?(?:```|\Z)", lambda code: "\n" * code[0].count("\n"), doc, flags=re.DOTALL)
    yield from banned(number, prose)
    first = next(iter(sentences(re.split(r"\n\s*\n", prose.strip())[0])), "")
    if (count := words(first)) > LONGEST_FIRST:
        yield number, "long first sentence", f"{count} words: {first[:80]}"
    if re.search(r"\bthat\b", first):
        yield number, "that", f"in a first sentence: {first[:80]}"


def type_finding(number: int, name: str) -> Iterator[Finding]:
    """The finding against a type whose name is one word and no noun."""
    alone = re.fullmatch(r"[A-Z][a-z]+", name)
    if alone and (name in RULES["states"] or (name.endswith("ed") and name not in RULES["nouns"])):
        yield number, "type name", f"{name} is no noun"


def rust_findings(code: str) -> Iterator[Finding]:
    """What breaks a rule in a Rust file."""
    doc: list[str] = []
    for number, line in enumerate([*code.splitlines(), ""], start=1):
        if match := re.match(r"\s*//[/!] ?(.*)", line):
            doc.append(match[1])
            continue
        if doc:
            yield from doc_findings(number - len(doc), "\n".join(doc))
            doc = []
        if match := TYPE.match(line):
            yield from type_finding(number, match[1])


def python_findings(code: str) -> Iterator[Finding]:
    """What breaks a rule in a Python file or stub."""
    nodes: list[ast.AST] = [ast.parse(code)]
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from type_finding(node.lineno, node.name)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += node.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from doc_findings(node.lineno, node.value.value)


def title_findings(titles: list[str]) -> Iterator[Finding]:
    """What breaks a rule in titles of commits."""
    for number, title in enumerate(titles, start=1):
        match = TITLE.match(title)
        verb = match["verb"].split("-")[0] if match else ""
        if not match or title.endswith(".") or (verb not in RULES["verbs"] and NOT_IMPERATIVE.match(verb)):
            yield number, "commit title", f'"{title}" is not "area: verb object"'
        if len(title) > LONGEST_TITLE:
            yield number, "commit title", f'"{title}" has {len(title)} characters'


def git(*command: str) -> list[str]:
    """The lines that a git command prints; none where there is no git, or its history does not reach far enough."""
    try:
        ran = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return ran.stdout.splitlines()


def new_titles() -> list[str]:
    """The titles of commits since the base."""
    return git("log", "--no-merges", "--format=%s", f"{BASE}..HEAD")


def tree_findings() -> Findings:
    """The findings of each file that the rules hold for."""
    found = {TITLES: list(title_findings(new_titles()))}
    kinds = [(glob, page_findings) for glob in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md")]
    kinds += [("rust/src/**/*.rs", rust_findings), ("python/ethoscade/**/*.py*", python_findings)]
    for glob, findings in kinds:
        for path in sorted(path for path in ROOT.glob(glob) if path.suffix in (".md", ".rs", ".py", ".pyi")):
            found[path.relative_to(ROOT).as_posix()] = list(findings(path.read_text(encoding="utf-8")))
    return found


def rules_over(found: Findings, allowed: dict[str, int]) -> dict[str, int]:
    """The rules broken more often than allowed, each with how often it is."""
    counts = Counter(rule for findings in found.values() for _, rule, _ in findings)
    return {rule: count for rule, count in sorted(counts.items()) if count > allowed.get(rule, 0)}


def lines(found: Findings) -> Iterator[str]:
    """A line for each finding."""
    for path, findings in found.items():
        yield from (f"{path}:{number}: {rule}: {text}" for number, rule, text in sorted(findings))


def main() -> int:
    """Print what breaks a rule. Returns the exit status."""
    found = tree_findings()
    over = rules_over(found, ALLOWED)
    if "--all" in sys.argv[1:]:
        shown = found
    else:
        changed = {TITLES, *git("diff", "--name-only", "HEAD~1")}
        of_rules = {path: [one for one in findings if one[1] in over] for path, findings in found.items()}
        shown = {path: findings for path, findings in of_rules.items() if path in changed and findings} or of_rules
    for line in lines(shown):
        print(line)
    for rule, count in over.items():
        print(f"{rule}: {count}, {ALLOWED.get(rule, 0)} allowed")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
