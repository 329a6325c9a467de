"""`<mod>_lib1.c` and the weights: programs of the NPU, weights, constants of the CPU. `<mod>_lib3.c`: names.

Owns these files' text. Numbers are spelled by `data`.
"""

from __future__ import annotations

from ..artifact import CpuCall
from . import data, header, identity, memory, status
from .module import Module
from .names import comment

_KINDS = ("COMMANDS", "WEIGHTS", "CONSTANTS")


def text(module: Module) -> str:
    """The arrays."""
    macro = module.macro
    groups = {"COMMANDS": module.programs(), "WEIGHTS": {}, "CONSTANTS": module.cpu_constants()}
    if module.weights_as == "array":
        groups["WEIGHTS"] = {module.weights_symbol: module.weights}
    placements = [memory.read_only_placement(module, kind) for kind in _KINDS if groups[kind]]
    sizes = {module.weights_symbol: f"{macro}_WEIGHTS_CONSTANT_POOL_SIZE / 4"}
    arrays = [
        data.array(name, value, f"{macro}_{kind}_ATTRIBUTE", sizes.get(name))
        for kind in _KINDS
        for name, value in groups[kind].items()
    ]
    head = (
        f"{identity.title(module, 'Data', is_data=True)}\n#include <stdint.h>\n\n"
        f'#include "{header.file_name(module)}"\n\n{data.ENDIANNESS_CHECK}'
    )
    # An empty translation unit is not C99: a network without data still declares the type it would use.
    return "\n\n".join([head, *placements, *(arrays or [f"typedef uint32_t {module.prefix}_no_data;"])]) + "\n"


def weights_assembly(module: Module) -> str:
    """The assembler file that brings the weights from their .bin file."""
    macro = module.macro
    brought = data.binary(
        module.weights_symbol,
        f"{macro}_WEIGHTS_SECTION",
        f"{macro}_WEIGHTS_FILE",
        weights_file(module),
        f"{macro}_CACHE_LINE_BYTES",
    )
    return (
        f'{identity.title(module, "Weights", is_data=True)}\n#include "{header.file_name(module)}"\n\n'
        f"{memory.weights_section(module)}\n{brought}"
    )


def weights_file(module: Module) -> str:
    """Name of the file with the weights' bytes."""
    return f"{module.name}_weights.bin"


def names(module: Module) -> str:
    """What is only for people: the names of statuses and calls."""
    prefix, artifact = module.prefix, module.artifact
    told = [
        artifact.graph.operators[call.operator].name if isinstance(call, CpuCall) else call.name
        for call in artifact.calls
    ]
    listed = ",\n".join(f'    "{_string(name)}"' for name in told)
    function = f"const char* {prefix}_call_name(uint32_t number)\n{{\n"
    if told:
        function += (
            f"  static const char* const names[{module.macro}_CALLS] = {{\n{listed}\n  }};\n\n"
            f'  return number < {module.macro}_CALLS ? names[number] : "";\n}}'
        )
    else:
        function += '  (void)number;\n  return "";\n}'
    head = f'{identity.title(module, "Names")}\n#include <stdint.h>\n\n#include "{header.file_name(module)}"'
    return "\n\n".join([head, status.definition(prefix), function]) + "\n"


def _string(name: str) -> str:
    return comment(name).replace('"', "'")
