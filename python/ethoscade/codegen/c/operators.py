"""`<mod>_lib2.c`: the operators on the CPU, each a function of the arena. Owns that file's text; kernels own theirs."""

from __future__ import annotations

import re

from ..artifact import CpuCall
from ..c_kernels import Source, kernel_text
from . import identity, status
from .module import Module
from .names import comment


def text(module: Module) -> str:
    """The whole file."""
    texts = [_once(source) for source in module.kernel_files]
    functions = []
    for number, body in module.cpu_bodies.items():
        call = module.artifact.calls[number]
        operator = module.artifact.graph.operators[call.operator] if isinstance(call, CpuCall) else None
        title = comment(f"{operator.kind} {operator.name}") if operator is not None else ""
        lines = "\n".join(f"  {line}" if line else "" for line in (body + _ending(module, number)).splitlines())
        lines = re.sub(rf"\b{status.TOO_SMALL.name}\b", f"{module.macro}_{status.TOO_SMALL.name}", lines)
        signature = f"{module.cpu_returns} {module.prefix}_cpu_{number}(uint8_t* arena)"
        functions.append(f"{signature};\n\n/* {title} */\n{signature}\n{{\n{lines}\n}}")
    head = f"{identity.title(module, 'CPU operators')}\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>"
    if module.cpu_statuses:
        head += f'\n\n#include "{module.prefix}.h"'
    declarations = "\n".join(f"extern const uint32_t {module.constant(index)}[];" for index in module.constants)
    return "\n\n".join(part for part in (head, declarations, *texts, *functions) if part) + "\n"


def _ending(module: Module, number: int) -> str:
    """The last line of a function that returns a status."""
    if not module.cpu_statuses:
        return ""
    ok, failed = (f"{module.macro}_{s.name}" for s in (status.OK, status.KERNEL_FAILED))
    if number not in module.cpu_statuses:
        return f"\nreturn {ok};"
    return f"return {module.cpu_statuses[number]} ? {ok} : {failed};"


def _once(source: Source) -> str:
    """A kernel's text, which two networks may bring into one translation unit."""
    guard = f"ETHOSCADE_KERNEL_{re.sub(r'[^A-Za-z0-9]', '_', source.name).upper()}_"
    return f"#ifndef {guard}\n#define {guard}\n{kernel_text(source).rstrip()}\n#endif"
