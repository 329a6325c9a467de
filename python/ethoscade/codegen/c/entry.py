"""`<mod>_lib0.c`: the run. It checks, copies inputs in, executes the calls in order and copies outputs out.

Owns that file's text; the parts about memory, the driver and state come from their modules.
"""

from __future__ import annotations

from ..artifact import FeedCall, NpuCall, TakeCall
from ..layout import distinct_payloads
from ..operations import INPUT_REGION
from . import driver, graph, header, identity, memory, state, status, stream
from .data import words
from .module import Module
from .regions import used


def _regions(module: Module) -> int:
    """How many regions a call has.

    They are weights, arena, fast memory, which is the arena as well unless there is one, and external inputs.
    """
    return INPUT_REGION + len(module.external)


_HOOKS = """#ifndef ETHOSCADE_BEFORE_CALL
#define ETHOSCADE_BEFORE_CALL(network, number) ((void)0)
#endif
#ifndef ETHOSCADE_AFTER_CALL
#define ETHOSCADE_AFTER_CALL(network, number, status) ((void)0)
#endif"""


def text(module: Module) -> str:
    """The whole file."""
    includes = "#include <stdbool.h>\n" if module.has_npu else ""
    parts = [
        identity.title(module, "Entry"),
        f"{includes}#include <stddef.h>\n#include <stdint.h>\n#include <string.h>",
        f'#include "{header.file_name(module)}"',
        driver.declarations() if module.has_npu else "",
        _HOOKS,
        memory.arena(module),
        memory.fast(module),
        _externals(module),
        _table(module),
        memory.check(module),
        _state(module),
        _map(module, "inputs", module.inputs),
        _map(module, "outputs", module.outputs),
        _prepare(module),
    ]
    if module.has_npu:
        parts += [driver.reserve(module), _bases(module), _open_and_close(module), _one(module)]
        if module.is_streamed:
            parts.append(stream.functions(module, header.begin_parameters(module), header.run_parameters(module)))
        else:
            parts += [_run(module), _asynchronous(module)]
    else:
        parts.append(_run_on_cpu(module))
    if module.options.has_graph:
        parts += [] if module.has_npu else [_open_and_close(module), _one(module)]
        parts.append(graph.steps(module, header.run_parameters(module), header.run_parameters(module, named=False)))
    return "\n\n".join(part for part in parts if part) + "\n"


# --- what other files define ----------------------------------------------------------------------------


def _externals(module: Module) -> str:
    lines = [f"extern const uint32_t {name}[{words(value)}];" for name, value in module.programs().items()]
    if module.weights_as in ("array", "incbin"):
        size = f"{module.macro}_WEIGHTS_CONSTANT_POOL_SIZE / 4"
        lines.append(f"extern const uint32_t {module.weights_symbol}[{size}];")
    lines += [f"extern const uint32_t {name}[{words(value)}];" for name, value in module.cpu_constants().items()]
    lines += [f"{module.cpu_returns} {module.prefix}_cpu_{number}(uint8_t* arena);" for number in module.cpu_bodies]
    return "\n".join(lines)


def _table(module: Module) -> str:
    """The calls in order, as data."""
    artifact, prefix = module.artifact, module.prefix
    if not artifact.calls:
        return ""
    size = f"{module.macro}_CALLS"
    if not module.has_npu:
        functions = ",\n".join(f"  {prefix}_cpu_{number}" for number in module.cpu_bodies)
        return f"static {module.cpu_returns} (*const {prefix}_calls[{size}])(uint8_t* arena) = {{\n{functions}\n}};"
    payloads = {payload: number for number, payload in enumerate(distinct_payloads(artifact))}
    rows, members = [], stream.members(module)
    where = "".join(f"  uint32_t {member};\n" for member in members)
    rest, what = ", 0u" * len(members), ", or rows to hand over" if members else ""
    for number, call in enumerate(artifact.calls):
        if isinstance(call, NpuCall):
            regions = used(call.payload)
            bits = sum(1 << region for region in (range(_regions(module)) if regions is None else regions))
            symbol = module.payload(payloads[call.payload])
            rows.append(f"  {{{symbol}, {len(call.payload)}, {bits}u, NULL{rest}}}")
        elif isinstance(call, FeedCall | TakeCall):
            rows.append(stream.row(module, call))
        else:
            rows.append(f"  {{NULL, 0, 0u, {prefix}_cpu_{number}{rest}}}")
    listed = ",\n".join(rows)
    return f"""/* A program of the NPU with a bit for each region that it uses, or an operator on the CPU{what}. */
struct {prefix}_call {{
  const uint32_t* payload;
  int payload_size;
  uint32_t regions;
  {module.cpu_returns} (*cpu)(uint8_t* arena);
{where}}};

static const struct {prefix}_call {prefix}_calls[{size}] = {{
{listed}
}};"""


# --- before and after the calls -------------------------------------------------------------------------


def _memory_argument(module: Module) -> str:
    return "workspace_pools" if module.has_pools else ""


def _state_flag(module: Module) -> str:
    return "workspace_pools->has_state" if module.has_pools else f"{module.prefix}_has_state"


def _state(module: Module) -> str:
    if not module.has_state:
        return ""
    prefix, arena, flag = module.prefix, memory.arena_expression(module), _state_flag(module)
    own = "" if module.has_pools else f"/* Whether the state is there. */\nstatic int {flag};\n\n"
    reset = state.reset(prefix, header.memory_parameter(module), _memory_argument(module), arena, flag)
    return f"{own}{state.definition(module.artifact, prefix, module.initial)}\n\n{reset}"


def _map(module: Module, what: str, indices: tuple[int, ...]) -> str:
    prefix, arena = module.prefix, memory.arena_expression(module)
    members = [f"  tensors.{module.tensor_names[index]} = {module.place(index, arena)};" for index in indices]
    members = members or ["  tensors.unused = NULL;"]
    if module.has_pools and not any(arena in member for member in members):
        members.insert(0, "  (void)workspace_pools;")
    lines = "\n".join(members)
    return (
        f"struct {prefix}_{what} {prefix}_map_{what}({header.memory_parameter(module)})\n{{\n"
        f"  struct {prefix}_{what} tensors;\n\n{lines}\n  return tensors;\n}}"
    )


def _prepare(module: Module) -> str:
    """Checks of all that the caller brings, before anything is written; then the state and the inputs."""
    prefix, ok = module.prefix, f"{module.macro}_{status.OK.name}"
    parameters = [p for p in header.begin_parameters(module) if not p.endswith("devices")]
    missing, copies, line = "", "", f"{module.macro}_CACHE_LINE_BYTES"
    ends = {end: {"inputs": module.inputs, "outputs": module.outputs}[end] for end in header.whole_ends(module)}
    if ends:
        pointers = [f"{what}->{module.tensor_names[index]}" for what, indices in ends.items() for index in indices]
        absent = " || ".join([*(f"{what} == NULL" for what in ends), *(f"{pointer} == NULL" for pointer in pointers)])
        missing = f"  if ({absent}) {{\n    return {module.macro}_{status.POINTER_MISSING.name};\n  }}\n"
    if "inputs" in ends:
        inside = tuple(index for index in module.inputs if index not in module.artifact.elsewhere)
        copies = _copies(module, "inputs", inside, "places.{0}", "inputs->{0}")
    odd = " || ".join(f"(uintptr_t)inputs->{module.tensor_names[i]} % {line} != 0" for i in module.external)
    if odd:
        missing += f"  if ({odd}) {{\n    return {module.macro}_{status.MISALIGNED.name};\n  }}\n"
    set_up = state.before_run(prefix, memory.arena_expression(module), _state_flag(module)) if module.has_state else ""
    return f"""static int32_t {prefix}_prepare({", ".join(parameters) or "void"})
{{
  int32_t status;

{missing}  status = {prefix}_check_memory({_memory_argument(module)});
  if (status != {ok}) {{
    return status;
  }}
{_lines(set_up, copies)}  return {ok};
}}"""


def _finish(module: Module, outputs: str, pools: str, arena: str) -> str:
    """The lines behind the last call: outputs to the caller, state to where the next run looks for it."""
    copies = ""
    if "outputs" in header.whole_ends(module):
        copies = _copies(module, "outputs", module.outputs, f"{outputs}{{0}}", "places.{0}", pools)
    return _lines(copies, state.after_run(module.artifact, module.prefix, arena))


def _copies(
    module: Module, what: str, indices: tuple[int, ...], target: str, source: str, pools: str | None = None
) -> str:
    """A block that copies tensors from or to their places, but those that the caller has there already."""
    if not indices:
        return ""
    argument = _memory_argument(module) if pools is None else pools
    lines = [f"  {{\n    const struct {module.prefix}_{what} places = {module.prefix}_map_{what}({argument});\n"]
    for index in indices:
        to, of = (text.format(module.tensor_names[index]) for text in (target, source))
        size = module.tensor(index).size_bytes
        lines.append(f"    if ({to} != {of}) {{\n      memmove({to}, {of}, {size});\n    }}")
    return "\n".join([*lines, "  }"])


def _lines(*parts: str) -> str:
    return "".join(f"{part}\n" for part in parts if part)


# --- runs without an NPU --------------------------------------------------------------------------------


def _run_on_cpu(module: Module) -> str:
    prefix, macro, ok = module.prefix, module.macro, f"{module.macro}_{status.OK.name}"
    arguments = ", ".join(header.run_parameters(module, named=False))
    arena = memory.arena_expression(module)
    calls, result = "", ok
    if module.artifact.calls:
        called, result = _called(module, f"{prefix}_calls[call]({arena})")
        failed = f"    if (status != {ok}) {{\n      return status;\n    }}\n" if module.cpu_statuses else ""
        calls = f"""  for (call = 0; call < {macro}_CALLS; ++call) {{
    ETHOSCADE_BEFORE_CALL("{module.name}", call);
    {called};
    ETHOSCADE_AFTER_CALL("{module.name}", call, {result});
{failed}  }}
"""
    return f"""int32_t {prefix}_run({", ".join(header.run_parameters(module)) or "void"})
{{
  {"" if module.cpu_statuses else "const "}int32_t status = {prefix}_prepare({arguments});
{"  uint32_t call;" + chr(10) if calls else ""}
  if (status != {ok}) {{
    return status;
  }}
{calls}{_finish(module, "outputs->", _memory_argument(module), arena)}  return {ok};
}}"""


def _called(module: Module, call: str) -> tuple[str, str]:
    """The statement that calls an operator's function, and the expression of its status."""
    return (f"status = {call}", "status") if module.cpu_statuses else (call, f"{module.macro}_{status.OK.name}")


# --- runs with one --------------------------------------------------------------------------------------


def _bases(module: Module) -> str:
    """The memory passed to the driver. Unused regions have no bytes."""
    prefix, macro = module.prefix, module.macro
    weights = "job->workspace_pools->weights" if module.weights_as == "pool" else module.weights_symbol
    scratch, fast, fast_size = (
        "fast scratch, which is the arena as well",
        "job->base_addr[1]",
        f"{macro}_WORKSPACE_SIZE",
    )
    others = ", then inputs" if module.external else ""
    inputs = "".join(
        f"  job->base_addr[{region}] = (uint64_t)(uintptr_t)job->inputs.{module.tensor_names[index]};\n"
        f"  job->base_addr_size[{region}] =\n"
        f"      (regions & {1 << region}u) != 0 && {macro}_INPUT_CACHE_MAINTENANCE ? {_lines_of(module, index)} : 0;\n"
        for region, index in enumerate(module.external, INPUT_REGION)
    )
    if module.has_fast:
        scratch, fast_size = "the NPU's fast memory", f"{macro}_FAST_SIZE"
        fast = f"(uint64_t)(uintptr_t){memory.fast_expression(module, 'job->workspace_pools')}"
    return f"""{_maintenance(module)}\
/* Whether the driver gets the weights' size, by which it maintains caches. Define it as 0 where
 * the CPU never writes them. */
#ifndef {macro}_WEIGHTS_CACHE_MAINTENANCE
#define {macro}_WEIGHTS_CACHE_MAINTENANCE 1
#endif

/* Regions: 0 weights, 1 arena, 2 {scratch}{others}. */
static void {prefix}_set_bases(struct {prefix}_job* job, uint32_t regions)
{{
  job->base_addr[0] = (uint64_t)(uintptr_t){weights};
  job->base_addr[1] = (uint64_t)(uintptr_t)job->arena;
  job->base_addr[2] = {fast};
  job->base_addr_size[0] =
      (regions & 1u) != 0 && {macro}_WEIGHTS_CACHE_MAINTENANCE ? {macro}_WEIGHTS_CONSTANT_POOL_SIZE : 0;
  job->base_addr_size[1] = (regions & 2u) != 0 ? {macro}_WORKSPACE_SIZE : 0;
  job->base_addr_size[2] = (regions & 4u) != 0 ? {fast_size} : 0;
{inputs}}}"""


def _maintenance(module: Module) -> str:
    if not module.external:
        return ""
    return f"""/* Whether the driver gets the inputs' sizes, by which it maintains caches. Define it as 0 where
 * they lie in memory that the CPU never writes through a cache. */
#ifndef {module.macro}_INPUT_CACHE_MAINTENANCE
#define {module.macro}_INPUT_CACHE_MAINTENANCE 1
#endif
"""


def _lines_of(module: Module, index: int) -> str:
    """An input's bytes in whole cache lines."""
    line = f"{module.macro}_CACHE_LINE_BYTES"
    return f"({module.tensor(index).size_bytes} + {line} - 1) / {line} * {line}"


def _open_and_close(module: Module) -> str:
    prefix, ok = module.prefix, f"{module.macro}_{status.OK.name}"
    parameters = ", ".join([f"struct {prefix}_job* job", *header.begin_parameters(module)])
    arguments = ", ".join(p for p in header.begin_parameters(module, named=False) if p != "devices")
    kept = "    job->workspace_pools = workspace_pools;\n" if module.has_pools else ""
    kept += "    job->outputs = *outputs;\n" if "outputs" in header.whole_ends(module) else ""
    kept += "    job->inputs = *inputs;\n" if module.external else ""
    kept += "    job->driver_result = 0;\n" if module.has_npu else ""
    if module.is_streamed:
        # Each step reserves the driver for itself, so that a run that is given up keeps none.
        kept += "    job->driver = NULL;\n    job->is_reserved = 0;\n    job->devices = devices;\n"
    elif module.has_npu:
        kept += f"    status = {prefix}_reserve(job, devices);\n"
    released = f"  {prefix}_release(job);\n" if module.has_npu else ""
    finish = _finish(module, "job->outputs.", "job->workspace_pools" if module.has_pools else "", "job->arena")
    ending = f"  if (status == {ok}) {{\n{_indented(finish)}  }}\n" if finish else ""
    return f"""static int32_t {prefix}_open({parameters})
{{
  int32_t status = {prefix}_prepare({arguments});

  if (status == {ok}) {{
    job->arena = {memory.arena_expression(module)};
    job->call = 0;
{kept}  }}
  return status;
}}

static int32_t {prefix}_close(struct {prefix}_job* job, int32_t status)
{{
{released}{ending}  return status;
}}"""


def _one(module: Module) -> str:
    """The function that does the next call of a run."""
    prefix, ok = module.prefix, f"{module.macro}_{status.OK.name}"
    if not module.artifact.calls:
        return ""
    if not module.has_npu:
        called, result = _called(module, f"{prefix}_calls[job->call](job->arena)")
        declared = "  int32_t status;\n\n" if module.cpu_statuses else ""
        return f"""static int32_t {prefix}_one(struct {prefix}_job* job)
{{
{declared}  ETHOSCADE_BEFORE_CALL("{module.name}", job->call);
  {called};
  ETHOSCADE_AFTER_CALL("{module.name}", job->call, {result});
  ++job->call;
  return {result};
}}"""
    return f"""{driver.invoke(module, _regions(module))}

static int32_t {prefix}_one(struct {prefix}_job* job)
{{
  const struct {prefix}_call* call = &{prefix}_calls[job->call];
  int32_t status = {ok};

  ETHOSCADE_BEFORE_CALL("{module.name}", job->call);
  if (call->cpu != NULL) {{
    {_called(module, "call->cpu(job->arena)")[0]};
  }} else {{
    status = {prefix}_invoke(job, call);
  }}
  ETHOSCADE_AFTER_CALL("{module.name}", job->call, status);
  ++job->call;
  return status;
}}"""


def _run(module: Module) -> str:
    prefix, macro, ok = module.prefix, module.macro, f"{module.macro}_{status.OK.name}"
    arguments = ", ".join(["&job", *header.run_parameters(module, named=False)])
    return f"""int32_t {prefix}_run({", ".join(header.run_parameters(module))})
{{
  struct {prefix}_job job;
  int32_t status = {prefix}_open({arguments});

  if (status != {ok}) {{
    return status;
  }}
  while (status == {ok} && job.call < {macro}_CALLS) {{
    status = {prefix}_one(&job);
  }}
  if (devices != NULL) {{
    devices->driver_result = job.driver_result;
  }}
  return {prefix}_close(&job, status);
}}"""


def _asynchronous(module: Module) -> str:
    prefix, macro, ok = module.prefix, module.macro, f"{module.macro}_{status.OK.name}"
    running, failed, refused, missing = (
        f"{macro}_{s.name}" for s in (status.RUNNING, status.NPU_FAILED, status.NPU_REFUSED, status.POINTER_MISSING)
    )
    arguments = ", ".join(header.run_parameters(module, named=False))
    parameters = ", ".join([f"struct {prefix}_job* job", *header.run_parameters(module)])
    called, result = _called(module, "call->cpu(job->arena)")
    on_cpu = [f"{called};", f'ETHOSCADE_AFTER_CALL("{module.name}", job->call, {result});']
    if module.cpu_statuses:
        on_cpu = [f"const int32_t {on_cpu[0]}\n", *on_cpu[1:], f"if (status != {ok}) {{"]
        on_cpu += [f"  return {prefix}_close(job, status);", "}"]
    told = "".join(f"      {line}\n" for line in on_cpu)
    return f"""#if ETHOSCADE_ETHOSU_ASYNC
/* Calls until the NPU is at work or all is done. */
static int32_t {prefix}_go_on(struct {prefix}_job* job)
{{
  for (; job->call < {macro}_CALLS; ++job->call) {{
    const struct {prefix}_call* call = &{prefix}_calls[job->call];

    ETHOSCADE_BEFORE_CALL("{module.name}", job->call);
    if (call->cpu != NULL) {{
{told}      continue;
    }}
    {prefix}_set_bases(job, call->regions);
    job->driver_result =
        ethosu_invoke_async(job->driver, call->payload, call->payload_size, job->base_addr,
                            job->base_addr_size, {_regions(module)}, job->user_arg);
    if (job->driver_result == 0) {{
      return {running};
    }}
    ETHOSCADE_AFTER_CALL("{module.name}", job->call, {refused});
    return {prefix}_close(job, {refused});
  }}
  return {prefix}_close(job, {ok});
}}

int32_t {prefix}_run_async({parameters})
{{
  int32_t status;

  if (job == NULL) {{
    return {missing};
  }}
  status = {prefix}_open(job, {arguments});
  if (status != {ok}) {{
    return status;
  }}
{driver.chosen(module)}
  return {prefix}_go_on(job);
}}

int32_t {prefix}_wait(struct {prefix}_job* job, int32_t block)
{{
  if (job == NULL || job->driver == NULL) {{
    return {missing};
  }}
  for (;;) {{
    int32_t status;

    job->driver_result = ethosu_wait(job->driver, block != 0);
    if (job->driver_result > 0) {{
      return {running};
    }}
    status = job->driver_result == 0 ? {ok} : {failed};
    ETHOSCADE_AFTER_CALL("{module.name}", job->call, status);
    ++job->call;
    status = status == {ok} ? {prefix}_go_on(job) : {prefix}_close(job, status);
    if (status != {running} || !block) {{
      return status;
    }}
  }}
}}
#endif"""


def _indented(lines: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in lines.splitlines())
