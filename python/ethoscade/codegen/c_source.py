"""Writes a compiled network as C99, with the interface that firmware for TVM's ahead-of-time executor expects.

Owns the files' text: `<mod>_lib0.c` (entry), `<mod>_lib1.c` (data), `<mod>_lib2.c` (CPU operators, if any) and the
header `tvmgen_<mod>.h`. Kernels' own text is in `c_kernels`, spelling of names in `c_names`, numbers of the data file
in `c_data`. The Ethos-U core driver is called through `ethosu_invoke_v3`; bases are constants, arena, arena (region 2).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CodegenError
from ..ir import Graph, Operator, Tensor
from ..util.files import MANIFEST_SUFFIX, write_together
from . import c_data, c_state
from .artifact import Artifact, CpuCall, NpuCall
from .c_kernels import Source, kernel_for, kernel_text
from .c_names import comment, module_identifier, tensor_identifiers
from .layout import distinct_payloads, npu_calls, verify

CACHE_LINE_BYTES = 32
"""The emitted default: a line of the Cortex-M55's and M85's data cache."""


def write(artifact: Artifact, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the sources and `<mod>.cmake` into `folder` (made if missing) and return their paths by file name.

    `<mod>.sha256` beside them lists their hashes: files of two compilations do not fit it.
    Raises `CodegenError` for names that clash in C or files that cannot be written, `UnsupportedOperatorError` for a
    CPU operator without a C kernel.
    """
    return write_together(folder, contents(artifact), f"{module_identifier(artifact.name)}{MANIFEST_SUFFIX}")


def contents(artifact: Artifact) -> dict[str, bytes]:
    """The bytes of every file that `write` writes, by name. Raises as `sources`."""
    files = sources(artifact)
    files[f"{module_identifier(artifact.name)}.cmake"] = _cmake(artifact, files)
    return {name: text.encode() for name, text in files.items()}


def workspace_bytes(artifact: Artifact) -> int:
    """Bytes of the emitted arena: the artefact's in whole cache lines of the default size."""
    return -(-artifact.arena_bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


def header_name(artifact: Artifact) -> str:
    """File name of the network's header."""
    return f"tvmgen_{module_identifier(artifact.name)}.h"


def sources(artifact: Artifact) -> dict[str, str]:
    """The text of every file by name. Raises as `write` does, but nothing is written."""
    module = _module(verify(artifact))
    files = {
        header_name(artifact): _header(module),
        f"{module.name}_lib0.c": _entry(module),
        f"{module.name}_lib1.c": _data(module),
    }
    if module.cpu_bodies:
        files[f"{module.name}_lib2.c"] = _kernels(module)
    return files


@dataclass(frozen=True, eq=False)
class _Module:
    """What all files share: names, the bodies of CPU calls by call number, and the constants that those read."""

    artifact: Artifact
    name: str
    tensor_names: dict[int, str]
    cpu_bodies: dict[int, str] = field(default_factory=dict)
    kernel_files: dict[Source, None] = field(default_factory=dict)
    constants: dict[int, None] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"tvmgen_{self.name}"

    @property
    def macro(self) -> str:
        return self.prefix.upper()

    @property
    def has_npu(self) -> bool:
        return bool(npu_calls(self.artifact))

    def tensor(self, index: int) -> Tensor:
        return self.artifact.graph.tensors[index]

    def source(self, index: int) -> str:
        """`Operands.source`: a constant is noted, so that the data file defines it."""
        if self.tensor(index).is_constant:
            self.constants[index] = None
            return f"(const uint8_t*){c_state.constant_symbol(self.prefix, index)}"
        return self.target(index)

    def target(self, index: int) -> str:
        """`Operands.target`."""
        return f"arena + {self.artifact.offsets[index]}"

    def data_symbols(self) -> dict[str, bytes]:
        """Every read-only array of the data file by symbol, in order."""
        symbols: dict[str, bytes] = {}
        for number, payload in enumerate(distinct_payloads(self.artifact)):
            symbols[f"{self.prefix}_payload_{number}"] = payload
        if self.has_npu:
            symbols[f"{self.prefix}_constants"] = self.artifact.constants or bytes(16)
        for number, value in c_state.arrays(self.artifact).items():
            symbols[self.initial(number)] = value
        for index in self.constants:
            data = self.tensor(index).data
            if data is not None:
                symbols[c_state.constant_symbol(self.prefix, index)] = data.tobytes()
        return symbols

    def initial(self, variable: int) -> str:
        """The array with what a variable holds before the first run."""
        return f"{self.prefix}_variable_{variable}"

    def data_declarations(self) -> list[str]:
        """`extern` declarations of the data file's arrays."""
        return [f"extern const uint32_t {name}[{self.data_words(name)}];" for name in self.data_symbols()]

    def data_words(self, symbol: str) -> str:
        """How many words an array has: as many as its data, and of what the driver drops from the cache whole lines."""
        data = self.data_symbols()[symbol]
        lines = symbol == f"{self.prefix}_constants"
        return f"{self.macro}_IN_LINES({len(data)}) / 4" if lines else str(c_data.words(data))


def _module(artifact: Artifact) -> _Module:
    graph = artifact.graph
    c_state.check(artifact)
    outer = {index: graph.tensors[index].name for index in (*graph.given, *graph.handed_out)}
    module = _Module(artifact, module_identifier(artifact.name), tensor_identifiers(outer, reserved=("workspace",)))
    for number, call in enumerate(artifact.calls):
        if isinstance(call, CpuCall):
            operator = graph.operators[call.operator]
            _refuse_state(graph, operator)
            written = kernel_for(graph, operator).write(graph, operator, module)
            emitted = artifact.kernels.call(written, f"arena + {call.workspace_offset}")
            module.cpu_bodies[number] = emitted.text
            module.kernel_files.update(dict.fromkeys(emitted.sources))
    for index in graph.outputs:
        if graph.tensors[index].is_constant:
            module.constants[index] = None
    return module


def _refuse_state(graph: Graph, operator: Operator) -> None:
    state = next((t for t in operator.inputs if t is not None and graph.tensors[t].is_variable), None)
    if state is not None:
        raise CodegenError(
            f"operator '{operator.name}' ({operator.kind}) keeps state in variable '{graph.tensors[state].name}', "
            f"which the C sources neither set up nor keep from one run to the next; write a .tflite file"
        )


# --- the header ------------------------------------------------------------------------------------------------------


def _header(module: _Module) -> str:
    graph, prefix, macro = module.artifact.graph, module.prefix, module.macro
    inputs, outputs = tuple(dict.fromkeys(graph.given)), tuple(dict.fromkeys(graph.handed_out))
    sizes = "\n".join(_tensor_macros(module, index) for index in dict.fromkeys((*inputs, *outputs)))
    devices = ""
    if module.has_npu:
        devices = (
            f"/* Devices: ethos_u is a reserved `struct ethosu_driver*`, or NULL to reserve one for each run. */\n"
            f"struct {prefix}_devices {{\n  void* ethos_u;\n}};\n\n"
        )
    device_argument = f",\n                 struct {prefix}_devices* devices" if module.has_npu else ""
    return f"""/* Interface of network "{comment(module.artifact.name)}" for {comment(module.artifact.accelerator)}. \
Generated by ethoscade. */
#ifndef {macro}_H_
#define {macro}_H_
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{sizes}

/* Input tensor pointers. */
{_struct(module, "inputs", inputs)}

/* Output tensor pointers. */
{_struct(module, "outputs", outputs)}

{devices}/* Run the network once: 0, or negative when it failed.
 *   -1  a pointer is missing
 *   -2  no NPU driver could be reserved
 *   -3  the NPU driver refused the program or reported an error
 *   -4  the arena does not begin with a cache line
 * Not reentrant: every run uses the same arena. */
int32_t {prefix}_run(struct {prefix}_inputs* inputs,
                 struct {prefix}_outputs* outputs{device_argument});

/* Where inputs and outputs lie in the arena. A run copies nothing for a pointer that already points there, so firmware
 * that fills and reads these places needs no memory beside the arena. Inputs must be filled again before every run, and
 * outputs are valid until the next inputs are filled in. */
struct {prefix}_inputs {prefix}_arena_inputs(void);
struct {prefix}_outputs {prefix}_arena_outputs(void);

{_paragraphs(c_state.declaration(prefix) if graph.variables else "", _memory(module))}

#ifdef __cplusplus
}}
#endif

#endif /* {macro}_H_ */
"""


def _memory(module: _Module) -> str:
    """The arena's size, in whole cache lines: what the driver invalidates must hold nobody else's bytes."""
    macro, prefix = module.macro, module.prefix
    return f"""/* Bytes of a line of the data cache, a power of two from 16 on. Before a run the driver writes the lines
 * of arena and constants back to memory, and afterwards it drops them: a neighbour in a line of theirs would lose what
 * it wrote meanwhile. Define it alike for all files that include this one. */
#ifndef {macro}_CACHE_LINE_BYTES
#define {macro}_CACHE_LINE_BYTES {CACHE_LINE_BYTES}
#endif
#if {macro}_CACHE_LINE_BYTES < 16 || ({macro}_CACHE_LINE_BYTES & ({macro}_CACHE_LINE_BYTES - 1)) != 0
#error "{macro}_CACHE_LINE_BYTES must be a power of two from 16 on"
#endif

#define {macro}_IN_LINES(bytes) \\
  (((bytes) + {macro}_CACHE_LINE_BYTES - 1) / {macro}_CACHE_LINE_BYTES * {macro}_CACHE_LINE_BYTES)

/* Bytes of the arena in use: inputs, outputs, intermediates, rolling buffers, staged weights, CPU workspaces. */
#define {macro}_ARENA_BYTES {module.artifact.arena_bytes}

/* Bytes of the arena: the same in whole cache lines. */
#define {macro}_WORKSPACE_SIZE {macro}_IN_LINES({macro}_ARENA_BYTES)

/* To bring your own arena, define {macro}_ARENA as the name of an array of uint8_t of at least
 * {macro}_WORKSPACE_SIZE bytes, aligned to a cache line, and, if it is larger,
 * {macro}_ARENA_ARRAY_BYTES as its size. Include this file where you define the array: the compiler
 * then compares. */
#ifdef {macro}_ARENA
#ifndef {macro}_ARENA_ARRAY_BYTES
#define {macro}_ARENA_ARRAY_BYTES {macro}_WORKSPACE_SIZE
#endif
extern uint8_t {macro}_ARENA[{macro}_ARENA_ARRAY_BYTES];
typedef char {prefix}_arena_is_large_enough[({macro}_ARENA_ARRAY_BYTES) >= {macro}_WORKSPACE_SIZE ? 1 : -1];
#endif"""


def _struct(module: _Module, what: str, indices: tuple[int, ...]) -> str:
    members = "\n".join(f"  void* {module.tensor_names[index]};" for index in indices)
    return f"struct {module.prefix}_{what} {{\n{members}\n}};"


def _tensor_macros(module: _Module, index: int) -> str:
    """An input's or output's bytes, and what its elements stand for: scale * (element - zero point)."""
    tensor, name = module.tensor(index), f"{module.macro}_{module.tensor_names[index].upper()}"
    lines = [f"/* {_describe(module, index)} */", f"#define {name}_SIZE {tensor.size_bytes}"]
    if tensor.quantisation is not None and tensor.quantisation.axis is None:
        # Nine digits tell a float exactly; C++ has had hexadecimal ones for too short a time.
        digits = f"{tensor.quantisation.scale:.9g}"
        lines.append(f"#define {name}_SCALE {digits if '.' in digits or 'e' in digits else f'{digits}.0'}f")
        lines.append(f"#define {name}_ZERO_POINT ({tensor.quantisation.zero_point})")
    return "\n".join(lines)


def _describe(module: _Module, index: int) -> str:
    tensor = module.tensor(index)
    kind = "Input" if index in module.artifact.graph.given else "Output"
    text = f'{kind} "{comment(tensor.name)}": {tensor.dtype.value} {list(tensor.shape)}'
    if tensor.quantisation is not None and tensor.quantisation.axis is None:
        text += f", scale {tensor.quantisation.scale:.9g}, zero point {tensor.quantisation.zero_point}"
    return text


# --- lib0: the entry -------------------------------------------------------------------------------------------------


def _entry(module: _Module) -> str:
    parts = [
        (
            f'/* Entry of network "{comment(module.artifact.name)}": copies inputs in, runs the calls in order, copies '
            "outputs out.\n * Generated by ethoscade. */\n"
            "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
            f'#include "tvmgen_{module.name}.h"'
        ),
        _driver_declarations() if module.has_npu else "",
        _arena(module),
        "\n".join(module.data_declarations()),
        "\n".join(f"void {module.prefix}_cpu_{number}(uint8_t* arena);" for number in module.cpu_bodies),
        _invoke(module) if module.has_npu else "",
        _calls(module),
        _arena_functions(module),
        _state(module) if module.artifact.graph.variables else "",
        _run(module),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _driver_declarations() -> str:
    return """/* The Ethos-U core driver. Define ETHOSCADE_ETHOSU_DRIVER_H as its header, e.g. <ethosu_driver.h> or
 * "ethosu_driver.h", to use that in place of these declarations. */
#ifdef ETHOSCADE_ETHOSU_DRIVER_H
#include ETHOSCADE_ETHOSU_DRIVER_H
#else
struct ethosu_driver;
struct ethosu_driver* ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver* drv);
int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                     uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr,
                     void* user_arg);
#endif

/* Drivers for several NPUs (from version 1.99 on) reserve none and choose by the program: NULL is theirs to run, and
 * the status tells. To older ones NULL is no device: define it as 0 for one of these used without its header. */
#ifndef ETHOSCADE_ETHOSU_NULL_RUNS
#if defined(ETHOSU_DRIVER_VERSION_MAJOR) && defined(ETHOSU_DRIVER_VERSION_MINOR)
#define ETHOSCADE_ETHOSU_NULL_RUNS (ETHOSU_DRIVER_VERSION_MAJOR * 100 + ETHOSU_DRIVER_VERSION_MINOR >= 199)
#else
#define ETHOSCADE_ETHOSU_NULL_RUNS 1
#endif
#endif"""


def _arena(module: _Module) -> str:
    macro, prefix = module.macro, module.prefix
    attribute = c_data.placement(f"{macro}_ARENA_ATTRIBUTE", ".bss.noinit.tvm", f"{macro}_CACHE_LINE_BYTES")
    return f"""/* The arena, unless the firmware brings its own. Define {macro}_ARENA_ATTRIBUTE to place it. */
#ifndef {macro}_ARENA
{attribute}
static uint8_t {prefix}_arena[{macro}_WORKSPACE_SIZE] {macro}_ARENA_ATTRIBUTE;
#define {macro}_ARENA {prefix}_arena
#endif"""


def _invoke(module: _Module) -> str:
    prefix, macro = module.prefix, module.macro
    return f"""/* One run of the NPU. Regions: 0 constants, 1 arena, 2 fast scratch, which is the arena as well. */
static int32_t {prefix}_invoke(struct ethosu_driver* driver, uint8_t* arena, const uint32_t* payload, int size)
{{
  uint64_t bases[3];
  size_t sizes[3];

  bases[0] = (uint64_t)(uintptr_t){prefix}_constants;
  bases[1] = (uint64_t)(uintptr_t)arena;
  bases[2] = bases[1];
  sizes[0] = sizeof {prefix}_constants;
  sizes[1] = {macro}_WORKSPACE_SIZE;
  sizes[2] = {macro}_WORKSPACE_SIZE;
  return ethosu_invoke_v3(driver, payload, size, bases, sizes, 3, NULL) == 0 ? 0 : -3;
}}"""


def _state(module: _Module) -> str:
    return c_state.definition(module.artifact, module.prefix, f"{module.macro}_ARENA", module.initial)


def _calls(module: _Module) -> str:
    """The function that executes all calls in order; it stops at the first that fails."""
    payloads = {payload: number for number, payload in enumerate(distinct_payloads(module.artifact))}
    lines = []
    for number, call in enumerate(module.artifact.calls):
        if isinstance(call, NpuCall):
            symbol = f"{module.prefix}_payload_{payloads[call.payload]}"
            lines.append(
                f"  if ({module.prefix}_invoke(driver, arena, {symbol}, {len(call.payload)}) != 0) {{"
                f"  /* {comment(call.name)} */\n    return -3;\n  }}"
            )
        else:
            operator = module.artifact.graph.operators[call.operator]
            title = comment(f"{operator.kind} {operator.name}")
            lines.append(f"  {module.prefix}_cpu_{number}(arena);  /* {title} */")
    driver = "struct ethosu_driver* driver, " if module.has_npu else ""
    unused = "" if lines else "  (void)arena;\n"
    body = "\n".join(lines) + "\n" if lines else ""
    return f"static int32_t {module.prefix}_execute({driver}uint8_t* arena)\n{{\n{unused}{body}  return 0;\n}}"


def _arena_functions(module: _Module) -> str:
    functions = []
    for what, indices in (("inputs", module.artifact.graph.given), ("outputs", module.artifact.graph.handed_out)):
        members = "\n".join(
            f"  tensors.{module.tensor_names[index]} = {_arena_place(module, index)};"
            for index in dict.fromkeys(indices)
        )
        functions.append(
            f"struct {module.prefix}_{what} {module.prefix}_arena_{what}(void)\n{{\n"
            f"  struct {module.prefix}_{what} tensors;\n\n{members}\n  return tensors;\n}}"
        )
    return "\n\n".join(functions)


def _arena_place(module: _Module, index: int) -> str:
    if module.tensor(index).is_constant:
        return f"(void*)(uintptr_t){module.prefix}_tensor_{index}"
    return f"{module.macro}_ARENA + {module.artifact.offsets[index]}"


def _run(module: _Module) -> str:
    graph, prefix = module.artifact.graph, module.prefix
    names = module.tensor_names
    pointers = [f"inputs->{names[i]}" for i in dict.fromkeys(graph.given)]
    pointers += [f"outputs->{names[i]}" for i in dict.fromkeys(graph.handed_out)]
    missing = " || ".join(["inputs == NULL", "outputs == NULL", *(f"{pointer} == NULL" for pointer in pointers)])
    copies_in = "\n".join(
        f"  if (inputs->{names[i]} != places.{names[i]}) {{\n"
        f"    memmove(places.{names[i]}, inputs->{names[i]}, {module.tensor(i).size_bytes});\n  }}"
        for i in dict.fromkeys(graph.given)
    )
    copies_out = "\n".join(
        f"  if (outputs->{names[i]} != results.{names[i]}) {{\n"
        f"    memmove(outputs->{names[i]}, results.{names[i]}, {module.tensor(i).size_bytes});\n  }}"
        for i in dict.fromkeys(graph.handed_out)
    )
    device_argument = f", struct {prefix}_devices* devices" if module.has_npu else ""
    return f"""int32_t {prefix}_run(struct {prefix}_inputs* inputs, struct {prefix}_outputs* outputs{device_argument})
{{
  const struct {prefix}_inputs places = {prefix}_arena_inputs();
  const struct {prefix}_outputs results = {prefix}_arena_outputs();
{_DRIVER_VARIABLES if module.has_npu else ""}  int32_t status;

  if ({missing}) {{
    return -1;
  }}
  if ((uintptr_t){module.macro}_ARENA % {module.macro}_CACHE_LINE_BYTES != 0) {{
    return -4;
  }}
{_lines(c_state.before_run(prefix) if graph.variables else "", copies_in)}
{_reserved(module) if module.has_npu else f"  status = {prefix}_execute({module.macro}_ARENA);"}
  if (status != 0) {{
    return status;
  }}
{_lines(copies_out, c_state.after_run(module.artifact, prefix))}
  return 0;
}}"""


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


_DRIVER_VARIABLES = """  struct ethosu_driver* given = devices != NULL ? devices->ethos_u : NULL;
  struct ethosu_driver* driver;
"""


def _reserved(module: _Module) -> str:
    return f"""  driver = given != NULL ? given : ethosu_reserve_driver();
  if (driver == NULL && !ETHOSCADE_ETHOSU_NULL_RUNS) {{
    return -2;
  }}
  status = {module.prefix}_execute(driver, {module.macro}_ARENA);
  if (given == NULL && driver != NULL) {{
    ethosu_release_driver(driver);
  }}"""


# --- lib1: the data, lib2: CPU operators -----------------------------------------------------------------------------


def _data(module: _Module) -> str:
    attribute = f"{module.macro}_CONSTANT_ATTRIBUTE"
    arrays = "\n\n".join(
        c_data.array(name, data, attribute, module.data_words(name)) for name, data in module.data_symbols().items()
    )
    head = (
        f'/* Data of network "{comment(module.artifact.name)}": NPU programs, weights and constants, as little-endian '
        f"words.\n * Generated by ethoscade. Define {attribute} to place them elsewhere. */\n#include <stdint.h>\n\n"
        f'#include "tvmgen_{module.name}.h"\n\n{c_data.ENDIANNESS_CHECK}\n\n'
        f"{c_data.placement(attribute, '.rodata.tvm', f'{module.macro}_CACHE_LINE_BYTES')}"
    )
    # An empty translation unit is not C99: a network without data still declares the type it would use.
    body = arrays or f"typedef uint32_t {module.prefix}_no_data;"
    return f"{head}\n\n{body}\n"


def _kernels(module: _Module) -> str:
    texts = [kernel_text(name).rstrip() for name in module.kernel_files]
    functions = []
    for number, body in module.cpu_bodies.items():
        call = module.artifact.calls[number]
        operator = module.artifact.graph.operators[call.operator] if isinstance(call, CpuCall) else None
        title = comment(f"{operator.kind} {operator.name}") if operator is not None else ""
        lines = "\n".join(f"  {line}" for line in body.splitlines())
        signature = f"void {module.prefix}_cpu_{number}(uint8_t* arena)"
        functions.append(f"{signature};\n\n/* {title} */\n{signature}\n{{\n{lines}\n}}")
    head = (
        f'/* CPU operators of network "{comment(module.artifact.name)}". Generated by ethoscade. */\n'
        f"#include <stddef.h>\n#include <stdint.h>\n#include <string.h>"
    )
    declarations = "\n".join(f"extern const uint32_t {module.prefix}_tensor_{index}[];" for index in module.constants)
    return "\n\n".join(part for part in (head, declarations, *texts, *functions) if part) + "\n"


def _cmake(artifact: Artifact, files: Mapping[str, str]) -> str:
    """A fragment for `include()` in a firmware's CMakeLists.txt; it brings no toolchain and no driver."""
    library = f"tvmgen_{module_identifier(artifact.name)}"
    units = "\n".join(f'  "${{CMAKE_CURRENT_LIST_DIR}}/{name}"' for name in files if name.endswith(".c"))
    mathematics = any("#include <math.h>" in text for text in files.values())
    linked = f"target_link_libraries({library} PUBLIC m)\n" if mathematics else ""
    return f"""# Library {library}; link it together with the Ethos-U core driver. Generated by ethoscade.
add_library({library} STATIC
{units}
)
target_include_directories({library} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
set_target_properties({library} PROPERTIES C_STANDARD 99)
{linked}"""
