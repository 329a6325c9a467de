"""The graph executor of the emitted C: a run call by call, and any tensor that is live read between two of them.

Owns its part of the header, the functions that step (in the entry's file) and `<mod>_lib4.c`, the table of the entries.
What nodes and entries are, `codegen.executor_graph` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import executor_graph
from ..artifact import NpuCall
from ..executor_graph import ExecutorGraph
from . import data, identity, status
from .module import Module
from .names import comment


def _graph(module: Module) -> ExecutorGraph:
    return executor_graph.build(module.artifact, module.name)


def file_name(module: Module) -> str:
    """The name of the graph's JSON."""
    return f"{module.name}.graph"


def macros(module: Module) -> str:
    """How many entries there are."""
    return (
        f"/* Entries of {file_name(module)}: tensors in the order of the nodes that make them. */\n"
        f"#define {module.macro}_GRAPH_ENTRIES {len(_graph(module).entries)}"
    )


def declarations(module: Module, run_parameters: Sequence[str]) -> str:
    """What the header says; `run_parameters` are those of a run."""
    prefix = module.prefix
    begun = f"int32_t {prefix}_graph_begin("
    parameters = (",\n" + " " * len(begun)).join((f"struct {prefix}_job* job", *run_parameters))
    programs = "\n".join(f"int32_t {name}(struct {prefix}_job* job);" for name in _programs(module))
    told = f"/* The programs of the NPU, each by itself: functions of nodes. */\n{programs}\n\n" if programs else ""
    return f"""/* The graph executor: a run call by call, the nodes of {file_name(module)} that have a function.
 * {prefix}_graph_begin begins it, {prefix}_graph_step does one call; both return RUNNING while calls are left, and
 * OK once all is done. After any other status the run has ended. Job, tensors and memory must stay where they are. */
{begun}{parameters});
int32_t {prefix}_graph_step(struct {prefix}_job* job);

/* Where the tensor of an entry lies, or NULL for one that is not live now: not made yet, or others may have its place.
 * What a run left is there until the memory is written to. */
const void* {prefix}_graph_tensor(const struct {prefix}_job* job, uint32_t entry);
/* An entry's bytes and its name; 0 and "" for a number that is none. */
uint32_t {prefix}_graph_size(uint32_t entry);
const char* {prefix}_graph_name(uint32_t entry);

{told}""".rstrip()


def _programs(module: Module) -> dict[str, int]:
    """The functions of NPU programs, and the numbers of their calls."""
    return {
        executor_graph.function_name(module.name, number, call): number
        for number, call in enumerate(module.artifact.calls)
        if isinstance(call, NpuCall)
    }


def steps(module: Module, run_parameters: Sequence[str], run_arguments: Sequence[str]) -> str:
    """The functions that go through a run, for the file that has its parts."""
    prefix, macro = module.prefix, module.macro
    ok, running, failed, missing = (
        f"{macro}_{s.name}" for s in (status.OK, status.RUNNING, status.NPU_FAILED, status.POINTER_MISSING)
    )
    arguments = ", ".join(["job", *run_arguments])
    parameters = ", ".join([f"struct {prefix}_job* job", *run_parameters])
    step = ""
    begun = f"status == {ok} ? (int32_t){running} : status"
    if module.artifact.calls:
        step = f"""  if (job->call < {macro}_CALLS) {{
    const int32_t status = {prefix}_one(job);

    if (status == {ok} && job->call < {macro}_CALLS) {{
      return {running};
    }}
    if (status != {ok}) {{
      job->call = {macro}_CALLS + 1;
    }}
    return {prefix}_close(job, status);
  }}
"""
    else:
        begun = f"status == {ok} ? {prefix}_close(job, {ok}) : status"
    programs = "".join(
        f"""

int32_t {name}(struct {prefix}_job* job)
{{
  return {prefix}_invoke(job, &{prefix}_calls[{number}]);
}}"""
        for name, number in _programs(module).items()
    )
    return f"""int32_t {prefix}_graph_begin({parameters})
{{
  int32_t status;

  if (job == NULL) {{
    return {missing};
  }}
  status = {prefix}_open({arguments});
  return {begun};
}}

int32_t {prefix}_graph_step(struct {prefix}_job* job)
{{
  if (job == NULL) {{
    return {missing};
  }}
{step}  return job->call > {macro}_CALLS ? {failed} : {ok};
}}{programs}"""


def text(module: Module) -> str:
    """`<mod>_lib4.c`: where each entry lies, and when."""
    prefix, macro, graph = module.prefix, module.macro, _graph(module)
    rows, constants = [], []
    for entry in graph.entries:
        tensor = module.tensor(entry.tensor)
        place, offset = "NULL", module.artifact.offsets.get(entry.tensor, 0)
        if tensor.data is not None:
            place, offset = module.constant(entry.tensor), 0
            constants.append(f"extern const uint32_t {place}[{data.words(tensor.data.tobytes())}];")
        name = comment(tensor.name).replace('"', "'")
        rows.append(f'  {{"{name}", {place}, {offset}, {tensor.size_bytes}, {entry.first}, {entry.last}}}')
    listed = ",\n".join(rows)
    head = f"""{identity.title(module, "Graph")}
#include <stddef.h>
#include <stdint.h>

#include "{prefix}.h"
"""
    declared = "".join(f"{line}\n" for line in constants)
    return f"""{head}
{declared}/* A tensor: a constant, or at an offset in the arena, live after `first` calls until `last` are done. */
struct {prefix}_graph_entry {{
  const char* name;
  const uint32_t* constant;
  uint32_t offset;
  uint32_t size;
  uint32_t first;
  uint32_t last;
}};

static const struct {prefix}_graph_entry {prefix}_graph_entries[{macro}_GRAPH_ENTRIES] = {{
{listed}
}};

const void* {prefix}_graph_tensor(const struct {prefix}_job* job, uint32_t entry)
{{
  const struct {prefix}_graph_entry* found;

  if (job == NULL || entry >= {macro}_GRAPH_ENTRIES) {{
    return NULL;
  }}
  found = &{prefix}_graph_entries[entry];
  if (job->call < found->first || job->call > found->last) {{
    return NULL;
  }}
  return found->constant != NULL ? (const void*)found->constant : job->arena + found->offset;
}}

uint32_t {prefix}_graph_size(uint32_t entry)
{{
  return entry < {macro}_GRAPH_ENTRIES ? {prefix}_graph_entries[entry].size : 0;
}}

const char* {prefix}_graph_name(uint32_t entry)
{{
  return entry < {macro}_GRAPH_ENTRIES ? {prefix}_graph_entries[entry].name : "";
}}
"""
