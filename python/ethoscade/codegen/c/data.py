"""Arrays of constant bytes as C text, and where a compiler puts them.

Owns the spelling of data in C. Knows nothing of networks.
"""

from __future__ import annotations

_WORDS_PER_LINE = 10

ENDIANNESS_CHECK = """#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "this data is for little-endian hosts, as every host of an Ethos-U is"
#endif
#endif"""


def words(data: bytes) -> int:
    """Number of 32-bit words that hold `data`."""
    return -(-len(data) // 4)


def array(name: str, data: bytes, attribute: str, count_text: str | None = None) -> str:
    """The definition of a `const uint32_t` array with the bytes of `data`, zero-filled to a whole word.

    `count_text` is a C expression for a larger number of words; the rest are zeros.
    Words and not bytes: a compiler takes a quarter of the time and memory for them, and weights have megabytes.
    """
    filled = data + bytes(-len(data) % 4)
    # bytes.hex groups the swapped bytes for us, which is much faster than formatting word by word.
    swapped = b"".join((filled[3::4], filled[2::4], filled[1::4], filled[0::4]))
    count = len(filled) // 4
    ordered = bytearray(len(filled))
    for lane in range(4):
        ordered[lane::4] = swapped[lane * count : (lane + 1) * count]
    numbers = ordered.hex("_", -4).split("_") if count else []
    lines = (
        "  " + ", ".join(f"0x{number}" for number in numbers[start : start + _WORDS_PER_LINE])
        for start in range(0, count, _WORDS_PER_LINE)
    )
    size = str(count) if count_text is None else count_text
    declaration = f"extern const uint32_t {name}[{size}];"
    return f"{declaration}\nconst uint32_t {name}[{size}] {attribute} = {{\n" + ",\n".join(lines) + "\n};"


def placement(macro: str, what: str, default_section: str, alignment: str) -> str:
    """Preprocessor text that defines `<macro>_<what>_ATTRIBUTE` as section and alignment unless the user did.

    The section is `<macro>_<what>_SECTION`, a string; `alignment` is a C expression, in bytes.
    """
    return f"""#ifndef {macro}_{what}_SECTION
#define {macro}_{what}_SECTION "{default_section}"
#endif
#ifndef {macro}_{what}_ATTRIBUTE
#if defined(__GNUC__) && defined(__ELF__)
#define {macro}_{what}_ATTRIBUTE __attribute__((section({macro}_{what}_SECTION), aligned({alignment})))
#elif defined(__GNUC__)
#define {macro}_{what}_ATTRIBUTE __attribute__((aligned({alignment})))
#else
#error "define {macro}_{what}_ATTRIBUTE as what this compiler needs to align an array to {alignment} bytes"
#endif
#endif"""


def binary(symbol: str, section: str, macro: str, file_name: str, alignment: str) -> str:
    """Assembler text that defines `symbol` as the bytes of a file, by GNU's and LLVM's `.incbin`.

    `section` and `alignment` are what the preprocessor makes a string and a number of; the file is `macro`, unless the
    user defined that. Zeros fill up to the alignment.
    """
    return f"""#if !defined(__ELF__)
#error "this file is for ELF assemblers; have the bytes as a C array instead (--weights array)"
#endif
/* The file with the bytes; it is looked for in the folders for include files. */
#ifndef {macro}
#define {macro} "{file_name}"
#endif

    .section {section}, "a", %progbits
    .balign {alignment}
    .global {symbol}
    .type {symbol}, %object
{symbol}:
    .incbin {macro}
    .balign {alignment}, 0
    .size {symbol}, . - {symbol}
#ifdef __linux__
    .section .note.GNU-stack, "", %progbits
#endif
"""
