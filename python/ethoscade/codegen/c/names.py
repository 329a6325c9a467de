"""C identifiers for the names that models use.

Owns sanitising, the names that are others' already, and the refusal of clashes. Emits no code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from ...errors import CodegenError

# The header is included by C++ firmware as well, so both languages' keywords are out. C23 6.4.1, C++26 [lex.key]; those
# of GNU's dialects as well.
_KEYWORD_TEXT = """
asm contract_assert typeof typeof_unqual
auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return co_yield
    compl concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export false friend
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
    requires static_assert static_cast template this thread_local throw true try typeid typename using virtual wchar_t
    xor xor_eq
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())

# Macros of the header that `<MOD>_<TENSOR>_SIZE` would be for a tensor of such a name.
_OWN = frozenset(("workspace", "fast", "arena_workspace_pool", "fast_workspace_pool", "weights_constant_pool"))

# What C99 7.1.3 leaves to compilers and their libraries, and what macros of our headers and the driver's begin with.
_OTHERS = re.compile(r"_[A-Z_]|(?:ETHOSCADE|ETHOSU|NETWORK|TVMGEN)_")


def identifier(name: str) -> str:
    """`name` with every character that C does not allow replaced by '_'; no keyword, no macro, never empty.

    >>> identifier("serving_default_input:0"), identifier("default"), identifier("1x")
    ('serving_default_input_0', 'default_', '_1x')
    >>> identifier("NULL"), identifier("__linux__")
    ('NULL_', 'tensor__linux__')
    """
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if text[0].isdigit():
        text = f"_{text}"
    if _OTHERS.match(text):
        return f"tensor{text}" if text.startswith("_") else f"tensor_{text}"
    return f"{text}_" if text in _macros() or text.lower() in _OWN or is_keyword(text) else text


def is_keyword(text: str) -> bool:
    """Whether it is a keyword of C or of C++."""
    return text in _KEYWORDS


def module_identifier(name: str) -> str:
    """`name` as the `<mod>` of `tvmgen_<mod>_run`: in lower case, as TVM has it.

    It never starts an identifier, so digits and keywords may stay.
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower()) or "_"


def tensor_identifiers(names: Mapping[int, str]) -> dict[int, str]:
    """Identifiers of tensors by index, distinct also when written in capitals (they become macros).

    Raises `CodegenError` naming both tensors when two names become one.
    """
    owner: dict[str, str] = {}
    found: dict[int, str] = {}
    for index, name in names.items():
        text = identifier(name)
        capital = text.upper()
        if capital in owner:
            raise CodegenError(
                f"tensors '{owner[capital]}' and '{name}' would both be called '{capital}' in the generated C header; "
                f"rename one of them"
            )
        owner[capital] = name
        found[index] = text
    return found


def comment(text: str) -> str:
    """`text` made harmless inside a C comment: printable ASCII, no comment marks, no trigraphs, no line splices."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text).replace("\\", "/")
    return re.sub(r"\?(?=\?)", "? ", plain).replace("*/", "* /").replace("/*", "/ *")


@cache
def _macros() -> frozenset[str]:
    text = resources.files(__package__).joinpath("macros.txt").read_text(encoding="ascii")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())
