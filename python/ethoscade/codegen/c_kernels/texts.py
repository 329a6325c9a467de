"""The C files of the kernels, each written once for all element types: placeholders filled in, what they use ahead.

Owns the placeholders. Words in capitals stand for element types (`TYPE`, `FROM`, `INTO`, `OTHER`, `WEIGHT`, `STATE`,
`TIME`), for the width of sums (`SUM`) or for the function of a loop (`WORK`). From `TYPE` follow `STORED`, its type in
C, `VALUE`, the type that it is computed with, and `LEAST` and `MOST`, its limits. A file's first line may name others
that it uses, with their words.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from ...ir import DType
from ...util.records import dataclass

_USES = re.compile(r"/\* uses: (.*) \*/\n")
_PLACEHOLDER = re.compile(
    r"(?<![A-Z])(STORED_FROM|VALUE_INTO|STORED|VALUE|TYPE|FROM|INTO|OTHER|WEIGHT|STATE|TIME|SUM|WORK|LEAST|MOST)(?![A-Z])"
)


@dataclass(frozen=True)
class Source:
    """One of the package's C files with the words that fill its placeholders.

    With `instead` the text is not the file's but the declaration of a function of that name, with the parameters of the
    file's own `function`, and one more for a workspace if it `has_workspace`.
    """

    file: str
    words: tuple[tuple[str, str], ...] = ()
    function: str = ""
    instead: str = ""
    has_workspace: bool = False

    @property
    def name(self) -> str:
        """What tells it from others: the function that is declared, or the file and its words."""
        return self.instead or " ".join([self.file, *(value for _, value in self.words)])


def source(file: str, **words: str | DType) -> Source:
    """A file with its words; element types by themselves or by name."""
    named = {word: value.value if isinstance(value, DType) else value for word, value in words.items()}
    return Source(file, tuple(sorted(named.items())))


@cache
def with_used(wanted: Source) -> tuple[Source, ...]:
    """A source behind all those that it uses, each once."""
    words = dict(wanted.words)
    found: dict[Source, None] = {}
    uses = _USES.match(_raw(wanted.file))
    for item in uses.group(1).split(", ") if uses else ():
        file, *given = _filled(item, words).split(" ")
        # The word on the left of an equals sign is the other file's, and stays.
        names = [part.split("=")[0] for part in item.split(" ")[1:]]
        pairs = zip(names, (part.split("=")[1] for part in given), strict=True)
        found.update(dict.fromkeys(with_used(source(file, **dict(pairs)))))
    return (*found, wanted)


def text_of(wanted: Source) -> str:
    """The C text of a source."""
    text = _USES.sub("", _raw(wanted.file), count=1)
    text = _filled(text, _derived(dict(wanted.words)))
    if not wanted.instead:
        return text
    found = re.search(rf"^static void {wanted.function}(\(.*?\))\n\{{", text, re.MULTILINE | re.DOTALL)
    assert found is not None, "a kernel's function is in its file"
    parameters = re.sub(r"\s*\n\s*", " ", found.group(1))
    if wanted.has_workspace:
        parameters = f"{parameters[:-1]}, uint8_t* workspace)"
    return f"void {wanted.instead}{parameters};\n"


def _filled(text: str, words: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: words.get(found.group(1), found.group(1)), text)


def _derived(words: dict[str, str]) -> dict[str, str]:
    """The words with those that follow from element types."""
    found = dict(words)
    if "TYPE" in words:
        dtype = DType(words["TYPE"])
        found |= {"STORED": stored_type(dtype), "VALUE": _value_type(dtype)}
        if dtype.is_integer:
            name = dtype.value.upper()
            found |= {"LEAST": f"{name}_MIN" if dtype.limits[0] else "0", "MOST": f"{name}_MAX"}
    if "FROM" in words:
        found["STORED_FROM"] = stored_type(DType(words["FROM"]))
    if "INTO" in words:
        found["VALUE_INTO"] = _value_type(DType(words["INTO"]))
    return found


def stored_type(dtype: DType) -> str:
    """An element type in C."""
    return "float" if dtype is DType.FLOAT32 else f"{dtype.value}_t"


def _value_type(dtype: DType) -> str:
    return "int32_t" if dtype.is_integer and dtype.size_bytes < 4 else stored_type(dtype)


@cache
def _raw(file: str) -> str:
    return resources.files(__package__).joinpath("c").joinpath(file).read_text(encoding="utf-8")
