"""The memory of the emitted C: whole cache lines, the arena and who brings it, sections.

Owns the macros, declarations and checks about memory. Where tensors lie in the arena, the artefact says.
"""

from __future__ import annotations

from ..layout import CACHE_LINE_BYTES
from . import data, status
from .module import Module

SHARED_ARENA = "tvmgen_shared_workspace"
"""The arena of networks that share one, and what the names about it begin with."""

# TVM's own names, which linker scripts know.
_READ_ONLY, _NOT_INITIALISED = ".rodata.tvm", ".bss.noinit.tvm"


def macros(module: Module) -> str:
    """Sizes and sections, for C and assembler alike."""
    macro = module.macro
    text = f"""{line_size(macro)}

#define {macro}_IN_LINES(bytes) \\
  (((bytes) + {macro}_CACHE_LINE_BYTES - 1) / {macro}_CACHE_LINE_BYTES * {macro}_CACHE_LINE_BYTES)

/* Bytes of the arena in use: inputs, outputs, intermediates, rolling buffers, staged weights, CPU workspaces. */
#define {macro}_ARENA_BYTES {module.artifact.arena_bytes}

/* Bytes of the arena: the same in whole cache lines. */
#define {macro}_WORKSPACE_SIZE {macro}_IN_LINES({macro}_ARENA_BYTES)"""
    if module.has_pools:
        text += f"\n#define {macro}_ARENA_WORKSPACE_POOL_SIZE {macro}_WORKSPACE_SIZE"
    if module.has_fast:
        text += (
            "\n\n/* Bytes of the NPU's fast memory, in whole cache lines. Between its runs it holds nothing. */\n"
            f"#define {macro}_FAST_SIZE {macro}_IN_LINES({module.artifact.fast_bytes})"
        )
        if module.has_pools:
            text += f"\n#define {macro}_FAST_WORKSPACE_POOL_SIZE {macro}_FAST_SIZE"
    if module.has_npu:
        text += (
            f"\n\n/* Bytes of the weights, in whole cache lines. */\n"
            f"#define {macro}_WEIGHTS_CONSTANT_POOL_SIZE {macro}_IN_LINES({len(module.weights)})"
        )
    return text


def line_size(macro: str) -> str:
    """The size of a cache line: for one network or, by default, for all."""
    return f"""/* Bytes of a line of the data cache, a power of two from 16 on. Before a run the driver writes the lines
 * of arena and weights back to memory, and afterwards it drops them: a neighbour in a line of theirs would lose what
 * it wrote meanwhile. Define it alike for all files, or ETHOSCADE_CACHE_LINE_BYTES for all networks. */
#ifndef {macro}_CACHE_LINE_BYTES
#ifdef ETHOSCADE_CACHE_LINE_BYTES
#define {macro}_CACHE_LINE_BYTES ETHOSCADE_CACHE_LINE_BYTES
#else
#define {macro}_CACHE_LINE_BYTES {CACHE_LINE_BYTES}
#endif
#endif
#if {macro}_CACHE_LINE_BYTES < 16 || ({macro}_CACHE_LINE_BYTES & ({macro}_CACHE_LINE_BYTES - 1)) != 0
#error "{macro}_CACHE_LINE_BYTES must be a power of two from 16 on"
#endif"""


def pools(module: Module) -> str:
    """The struct by which the caller brings the memory, "" where it does not."""
    if not module.has_pools:
        return ""
    prefix, macro = module.prefix, module.macro
    weights, state, fast = module.weights_as == "pool", module.has_state, module.has_fast
    members = ["void* arena;"]
    members += ["void* fast;"] if fast else []
    members += ["const void* weights;"] if weights else []
    members += ["size_t arena_size;"]
    members += ["size_t fast_size;"] if fast else []
    members += ["size_t weights_size;"] if weights else []
    members += ["uint32_t has_state;"] if state else []
    lines = "\n".join(f"  {member}" for member in members)
    told = f" *   arena    at least {macro}_ARENA_WORKSPACE_POOL_SIZE bytes\n"
    if fast:
        told += f" *   fast     at least {macro}_FAST_WORKSPACE_POOL_SIZE bytes, the NPU's fast memory;\n"
        told += " *            what the driver was initialised with goes before it\n"
    if weights:
        told += (
            f" *   weights  the bytes of {module.name}_weights.bin: {macro}_WEIGHTS_CONSTANT_POOL_SIZE with the rest\n"
        )
        told += " *            of the last cache line\n"
    if state:
        told += " *   has_state  0 before the first run, which sets up the state and then says so here\n"
    others = "no other code may write to it between runs" if state else "networks that run in turn may use the same"
    return (
        "/* The memory of a run, each begun with a cache line, and its size in bytes. Runs at the same time need one\n"
        f" * each; {others}.\n{told} */\n"
        f"struct {prefix}_workspace_pools {{\n{lines}\n}};"
    )


def own_arena(module: Module) -> str:
    """How the firmware replaces the arena that the sources bring; "" where the caller brings it to every run."""
    if module.has_pools:
        return ""
    macro, prefix = module.macro, module.prefix
    shared = ""
    if module.options.shares_arena:
        shared = f"""/* The arena that all networks of {SHARED_ARENA}.h use, one after the other. */
#ifndef {macro}_ARENA
#include "{SHARED_ARENA}.h"
#define {macro}_ARENA {SHARED_ARENA}
#define {macro}_ARENA_ARRAY_BYTES {SHARED_ARENA.upper()}_SIZE
#endif

"""
    return f"""{shared}/* To bring your own arena, define {macro}_ARENA as the name of an array of uint8_t of at least
 * {macro}_WORKSPACE_SIZE bytes, aligned to a cache line, and, if it is larger,
 * {macro}_ARENA_ARRAY_BYTES as its size. Include this file where you define the array: the compiler
 * then compares. */
#ifdef {macro}_ARENA
#ifndef {macro}_ARENA_ARRAY_BYTES
#define {macro}_ARENA_ARRAY_BYTES {macro}_WORKSPACE_SIZE
#endif
extern uint8_t {macro}_ARENA[{macro}_ARENA_ARRAY_BYTES];
typedef char {prefix}_arena_is_large_enough[({macro}_ARENA_ARRAY_BYTES) >= {macro}_WORKSPACE_SIZE ? 1 : -1];
#endif{_own_fast(module)}"""


def _own_fast(module: Module) -> str:
    """How the firmware replaces the fast memory, which networks that run in turn may share; "" where there is none."""
    if not module.has_fast:
        return ""
    macro, shared = module.macro, ""
    if module.options.shares_arena:
        shared = f"""

/* The fast memory that all networks of {SHARED_ARENA}.h use, one after the other. */
#ifndef {macro}_FAST
#include "{SHARED_ARENA}.h"
#define {macro}_FAST {SHARED_ARENA}_fast
#endif"""
    return f"""{shared}

/* To bring your own fast memory, define {macro}_FAST as the name of an array of uint8_t of at least
 * {macro}_FAST_SIZE bytes, aligned to a cache line. Networks that run one after the other may use
 * the same. */
#ifdef {macro}_FAST
extern uint8_t {macro}_FAST[];
#endif"""


def fast(module: Module) -> str:
    """The array of the fast memory that the sources bring."""
    if module.has_pools or module.options.shares_arena or not module.has_fast:
        return ""
    macro, prefix = module.macro, module.prefix
    return f"""{fast_placement(macro)}

/* The NPU's fast memory, unless the firmware brings its own. */
#ifndef {macro}_FAST
static uint8_t {prefix}_fast[{macro}_FAST_SIZE] {macro}_FAST_ATTRIBUTE;
#define {macro}_FAST {prefix}_fast
#endif"""


def fast_placement(macro: str) -> str:
    """Section and alignment of fast memory."""
    return data.placement(macro, "FAST", _NOT_INITIALISED + ".fast", f"{macro}_CACHE_LINE_BYTES")


def fast_expression(module: Module, pools: str) -> str:
    """The fast memory of a run, as a pointer; `pools` names the caller's memory."""
    return f"{pools}->fast" if module.has_pools else f"{module.macro}_FAST"


def arena(module: Module) -> str:
    """The array that the sources bring."""
    if module.has_pools or module.options.shares_arena:
        return ""
    macro, prefix = module.macro, module.prefix
    return f"""{arena_placement(macro)}

/* The arena, unless the firmware brings its own. */
#ifndef {macro}_ARENA
static uint8_t {prefix}_arena[{macro}_WORKSPACE_SIZE] {macro}_ARENA_ATTRIBUTE;
#define {macro}_ARENA {prefix}_arena
#endif"""


def arena_placement(macro: str) -> str:
    """Section and alignment of an arena."""
    return data.placement(macro, "ARENA", _NOT_INITIALISED, f"{macro}_CACHE_LINE_BYTES")


def read_only_placement(module: Module, what: str) -> str:
    """Section and alignment of "COMMANDS", "WEIGHTS" or "CONSTANTS"."""
    return data.placement(module.macro, what, _READ_ONLY, f"{module.macro}_CACHE_LINE_BYTES")


def weights_section(module: Module) -> str:
    """The section of the weights, for assembler."""
    macro = module.macro
    return f'#ifndef {macro}_WEIGHTS_SECTION\n#define {macro}_WEIGHTS_SECTION "{_READ_ONLY}"\n#endif'


def arena_expression(module: Module) -> str:
    """The arena of a run, as `uint8_t*`."""
    return "(uint8_t*)workspace_pools->arena" if module.has_pools else f"{module.macro}_ARENA"


def check(module: Module) -> str:
    """The function that looks at the memory of a run before anything is written; "" if there is nothing to say."""
    macro, prefix = module.macro, module.prefix
    ok, missing, odd, small = (
        f"{macro}_{s.name}" for s in (status.OK, status.POINTER_MISSING, status.MISALIGNED, status.TOO_SMALL)
    )
    memories = [("workspace_pools->arena", "workspace_pools->arena_size", f"{macro}_WORKSPACE_SIZE")]
    if module.has_fast:
        memories.append(("workspace_pools->fast", "workspace_pools->fast_size", f"{macro}_FAST_SIZE"))
    if module.weights_as == "pool":
        memories.append(
            ("workspace_pools->weights", "workspace_pools->weights_size", f"{macro}_WEIGHTS_CONSTANT_POOL_SIZE")
        )
    if not module.has_pools:
        own = [f"{macro}_ARENA", *([f"{macro}_FAST"] if module.has_fast else [])]
        even = " && ".join(f"(uintptr_t){array} % {macro}_CACHE_LINE_BYTES == 0" for array in own)
        return f"""static int32_t {prefix}_check_memory(void)
{{
  return {even} ? {ok} : {odd};
}}"""
    null = " || ".join(["workspace_pools == NULL", *(f"{pointer} == NULL" for pointer, _, _ in memories)])
    odds = " || ".join(f"(uintptr_t){pointer} % {macro}_CACHE_LINE_BYTES != 0" for pointer, _, _ in memories)
    smalls = " || ".join(f"{size} < {least}" for _, size, least in memories)
    return f"""static int32_t {prefix}_check_memory(const struct {prefix}_workspace_pools* workspace_pools)
{{
  if ({null}) {{
    return {missing};
  }}
  if ({odds}) {{
    return {odd};
  }}
  return ({smalls}) ? {small} : {ok};
}}"""
