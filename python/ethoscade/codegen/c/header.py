"""The header `tvmgen_<mod>.h`: all that firmware may use of a network.

Owns the order and the words of the header; what is said of memory, statuses and state, their modules write.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..operations import INPUT_REGION
from . import driver, graph, identity, memory, state, status, stream
from .module import Module
from .names import comment


def file_name(module: Module) -> str:
    """The header's name."""
    return f"{module.prefix}.h"


def text(module: Module) -> str:
    """The whole file. Without the parts for C it can be included by assembler."""
    macro = module.macro
    plain = _paragraphs(
        identity.macros(module), *(_tensor_macros(module, index) for index in _ends(module)), _calls(module),
        memory.macros(module), driver.ASYNC_DEFAULT if module.has_npu else "",
        graph.macros(module) if module.options.has_graph else "",
        stream.macros(module),
    )  # fmt: skip
    declared = _paragraphs(
        f"/* Input tensor pointers{_where_external(module)}. */\n{_struct(module, 'inputs', module.inputs)}",
        f"/* Output tensor pointers. */\n{_struct(module, 'outputs', module.outputs)}",
        memory.pools(module),
        _devices(module),
        status.declaration(module.prefix),
        _run(module),
        _maps(module),
        state.declaration(module.prefix, memory_parameter(module)) if module.has_state else "",
        _job(module),
        stream.declarations(module, begin_parameters(module)) if module.is_streamed else _async(module),
        graph.declarations(module, run_parameters(module)) if module.options.has_graph else "",
        _call_name(module),
        memory.own_arena(module),
    )
    return f"""{identity.title(module, "Interface")}
#ifndef {macro}_H_
#define {macro}_H_

/* A header of your own may define what is said below to be yours to define. */
#ifdef ETHOSCADE_CONFIG_H
#include ETHOSCADE_CONFIG_H
#endif

{plain}

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{declared}

#ifdef __cplusplus
}}
#endif
#endif /* __ASSEMBLER__ */

#endif /* {macro}_H_ */
"""


def run_parameters(module: Module, *, named: bool = True) -> list[str]:
    """The parameters of a run in TVM's order, or only their names."""
    ends = () if module.options.workspace_io else ("inputs", "outputs")
    return _parameters(module, ends, named=named)


def _parameters(module: Module, ends: Sequence[str], *, named: bool) -> list[str]:
    wanted = {"workspace_pools": module.has_pools, "devices": module.has_npu}
    others = [name for name, is_wanted in wanted.items() if is_wanted]
    return [f"struct {module.prefix}_{name}* {name}" if named else name for name in (*ends, *others)]


def begin_parameters(module: Module, *, named: bool = True) -> list[str]:
    """The parameters by which a run begins: without those whose rows are handed over later."""
    return _parameters(module, whole_ends(module), named=named)


def whole_ends(module: Module) -> tuple[str, ...]:
    """Which of "inputs" and "outputs" a run has pointers to from its beginning."""
    later = {"inputs": module.feeds, "outputs": module.takes}
    return () if module.options.workspace_io else tuple(end for end, calls in later.items() if not calls)


def memory_parameter(module: Module) -> str:
    """The parameter of a function that needs the memory of a run alone."""
    return f"struct {module.prefix}_workspace_pools* workspace_pools" if module.has_pools else "void"


def _ends(module: Module) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*module.inputs, *module.outputs)))


def _tensor_macros(module: Module, index: int) -> str:
    """An input's or output's bytes, and what its elements stand for: scale * (element - zero point)."""
    tensor, name = module.tensor(index), f"{module.macro}_{module.tensor_names[index].upper()}"
    lines = [f"/* {_describe(module, index)} */", f"#define {name}_SIZE {tensor.size_bytes}"]
    if tensor.quantisation is not None and tensor.quantisation.axis is None:
        # Nine digits tell a float exactly; C++ has had hexadecimal ones for too short a time.
        digits = f"{tensor.quantisation.scale:.9g}"
        lines.append(f"#define {name}_SCALE {digits if '.' in digits or 'e' in digits else f'{digits}.0'}f")
        lines.append(f"#define {name}_ZERO_POINT ({tensor.quantisation.zero_point})")
    return "\n".join(lines)


def _describe(module: Module, index: int) -> str:
    tensor = module.tensor(index)
    kind = "Input" if index in module.inputs else "Output"
    told = f'{kind} "{comment(tensor.name)}": {tensor.dtype.value} {list(tensor.shape)}'
    if tensor.quantisation is not None and tensor.quantisation.axis is None:
        told += f", scale {tensor.quantisation.scale:.9g}, zero point {tensor.quantisation.zero_point}"
    return told


def _calls(module: Module) -> str:
    rows = (
        " A handover of rows\n * is one as well, from the return that says so to the next step."
        if module.is_streamed
        else ""
    )
    return (
        "/* Programs of the NPU and operators on the CPU, in order; the macros ETHOSCADE_BEFORE_CALL(network, number)\n"
        f" * and ETHOSCADE_AFTER_CALL(network, number, status), if you define them, surround each.{rows} */\n"
        f"#define {module.macro}_CALLS {len(module.artifact.calls)}"
    )


def _struct(module: Module, what: str, indices: tuple[int, ...]) -> str:
    # A struct without members is not C99.
    members = "\n".join(f"  void* {module.tensor_names[index]};" for index in indices) or "  void* unused;"
    return f"struct {module.prefix}_{what} {{\n{members}\n}};"


def _where_external(module: Module) -> str:
    if not module.external:
        return ""
    return (
        ". The NPU reads the bytes there while a run goes on: in memory that it\n"
        " * reaches, each begun with a cache line and with the rest of its last line to itself"
    )


def _devices(module: Module) -> str:
    if not module.has_npu:
        return ""
    return f"""/* Devices: ethos_u is a reserved `struct ethosu_driver*`, or NULL to reserve one for each run; user_arg
 * comes to the driver's ethosu_inference_begin and ethosu_inference_end. After a run driver_result is what the driver
 * returned last: 0, or an error of its own. A run that does not wait has it in its job. */
struct {module.prefix}_devices {{
  void* ethos_u;
  void* user_arg;
  int driver_result;
}};"""


def _run(module: Module) -> str:
    if module.is_streamed and module.options.workspace_io:
        return ""
    prefix = module.prefix
    begun = f"int32_t {prefix}_run("
    parameters = (",\n" + " " * len(begun)).join(run_parameters(module)) or "void"
    if module.options.workspace_io:
        ends = "Inputs are where the functions below say, and so are outputs afterwards."
    else:
        ends = "Nothing is copied for a pointer to the places that the functions below tell."
    if module.artifact.elsewhere:
        ends = "Inputs stay where they are; no output is copied to the place that the function below tells."
    if module.is_streamed:
        ends = stream.what_a_run_copies(module)
    alone = "Not reentrant: every run uses the same arena." if not module.has_pools else (
        "Reentrant in different pools."
    )  # fmt: skip
    said = f"Run the network once; returns a status. {ends}"
    lines = "\n * ".join(textwrap.wrap(said, 116, break_on_hyphens=False)) if module.is_streamed else said
    return f"/* {lines}\n * {alone} */\n{begun}{parameters});"


def _maps(module: Module) -> str:
    prefix, parameter = module.prefix, memory_parameter(module)
    if module.takes:
        filled = "" if module.feeds or module.external else " Inputs must be filled again before every run."
        return f"""/* Where inputs and outputs lie in the arena; NULL for what lies elsewhere or is handed over row by
 * row.{filled} */
struct {prefix}_inputs {prefix}_map_inputs({parameter});
struct {prefix}_outputs {prefix}_map_outputs({parameter});"""
    if module.artifact.elsewhere:
        return f"""/* Where outputs lie in the arena, valid until the next run; inputs are the caller's, and NULL. */
struct {prefix}_inputs {prefix}_map_inputs({parameter});
struct {prefix}_outputs {prefix}_map_outputs({parameter});"""
    return f"""/* Where inputs and outputs lie in the arena. Firmware that fills and reads these places needs no memory
 * beside it. Inputs must be filled again before every run; outputs are valid until the next inputs are filled in. */
struct {prefix}_inputs {prefix}_map_inputs({parameter});
struct {prefix}_outputs {prefix}_map_outputs({parameter});"""


def _job(module: Module) -> str:
    if not module.has_npu and not module.options.has_graph:
        return ""
    prefix = module.prefix
    outputs = f"  struct {prefix}_outputs outputs;\n" if "outputs" in whole_ends(module) else ""
    pools = f"  struct {prefix}_workspace_pools* workspace_pools;\n" if module.has_pools else ""
    declared = "struct ethosu_driver;\n" if module.has_npu else ""
    driver_of = "  struct ethosu_driver* driver;\n  void* user_arg;\n" if module.has_npu else ""
    count = INPUT_REGION + len(module.external)
    bases = f"  uint64_t base_addr[{count}];\n  size_t base_addr_size[{count}];\n" if module.has_npu else ""
    outputs += f"  struct {prefix}_inputs inputs;\n" if module.external else ""
    outputs += f"  struct {prefix}_devices* devices;\n" if module.is_streamed else ""
    reserved = "  int32_t is_reserved;\n  int driver_result;\n" if module.has_npu else ""
    private = "what is in it but driver_result" if module.has_npu else "what is in it"
    return f"""/* A run on its way; {private} is the sources' business. */
{declared}struct {prefix}_job {{
{driver_of}{outputs}{pools}  uint8_t* arena;
{bases}  uint32_t call;
{reserved}}};"""


def _async(module: Module) -> str:
    if not module.has_npu:
        return ""
    prefix = module.prefix
    begun = f"int32_t {prefix}_run_async("
    parameters = (",\n" + " " * len(begun)).join((f"struct {prefix}_job* job", *run_parameters(module)))
    return f"""#if ETHOSCADE_ETHOSU_ASYNC
/* The same without waiting for the NPU: {prefix}_run_async begins, {prefix}_wait goes on, both until the NPU is at
 * work, and return RUNNING then. With `block` {prefix}_wait returns only when all is done. Job, tensors and memory must
 * stay where they are meanwhile. After any other status the run has ended. */
{begun}{parameters});
int32_t {prefix}_wait(struct {prefix}_job* job, int32_t block);
#endif"""


def _call_name(module: Module) -> str:
    return (
        f"/* The name of a call: its operator's, or the NPU program's; \"\" for a number that is none. */\n"
        f"const char* {module.prefix}_call_name(uint32_t number);"
    )


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
