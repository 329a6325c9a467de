"""A streamed input or output in the emitted C: a run in steps, between which rows are handed over.

Owns its part of the header and the functions that begin and step. Where rows go, the artefact's feeds and takes say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..artifact import FeedCall, TakeCall
from . import status
from .module import Module


def macros(module: Module) -> str:
    """How many rows are handed over, and how long they are; "" where all is there as a whole."""
    found = []
    arrive, leave = "Rows that arrive in a run", "Rows that leave in a run"
    unread = "\n * What is left of the input is not looked at."
    for calls, what, rest in ((module.feeds, arrive, unread), (module.takes, leave, "")):
        if not calls:
            continue
        name = f"{module.macro}_{module.tensor_names[calls[0].tensor].upper()}"
        found.append(f"""/* {what}, how many at most at a time, and bytes of a row.{rest} */
#define {name}_ROWS {sum(call.rows for call in calls)}
#define {name}_ROWS_AT_ONCE {max(call.rows for call in calls)}
#define {name}_ROW_BYTES {calls[0].row_bytes}""")
    return "\n\n".join(found)


def declarations(module: Module, begin_parameters: Sequence[str]) -> str:
    """What the header says; `begin_parameters` are those of a run's beginning."""
    prefix = module.prefix
    begun = f"int32_t {prefix}_begin("
    parameters = (",\n" + " " * len(begun)).join((f"struct {prefix}_job* job", *begin_parameters))
    signatures = [f"{_signature(module, name, pointer)};" for name, pointer in _handovers(module)]
    listed = "\n".join([f"{begun}{parameters});", *signatures, f"int32_t {prefix}_step(struct {prefix}_job* job);"])
    return f"{_comment(module)}\n{listed}"


def _handovers(module: Module) -> list[tuple[str, str]]:
    """The functions for where rows lie, with the type of what they point to."""
    kinds = ((module.feeds, "want", "uint8_t*"), (module.takes, "take", "const uint8_t*"))
    return [(name, pointer) for calls, name, pointer in kinds if calls]


def _signature(module: Module, name: str, pointer: str) -> str:
    job = f"const struct {module.prefix}_job* job"
    return f"int32_t {module.prefix}_{name}({job}, {pointer}* where, uint32_t* rows, uint32_t* stride)"


def _comment(module: Module) -> str:
    """What the header says of the functions."""
    prefix = module.prefix
    begins = f"{prefix}_begin and {prefix}_step return RUNNING while there are rows to hand over"
    said = [f"A run whose rows are handed over one after the other. {begins}, and OK once all is done."]
    if module.feeds:
        goes_on = f"When they are there, {prefix}_step goes on."
        if module.feeds[0].is_ahead:
            goes_on = (
                f"Then {prefix}_step goes on with the rows before these, which must be there; these may arrive "
                "meanwhile. At the end no rows are wanted, for the last ones to arrive."
            )
        said.append(f"{prefix}_want returns where the next `rows` rows of the input go. {goes_on}")
    if module.takes:
        said.append(f"{prefix}_take returns where the next `rows` rows of the output lie, until {prefix}_step goes on.")
    if module.feeds and module.takes:
        said.append("Where one of the two has rows, `rows` of the other is 0.")
    if not module.feeds and not module.external and not module.options.workspace_io:
        said.append(f"{prefix}_begin copies inputs to their places, but for a pointer to these.")
    said.append(
        "The first row lies at `where`, each other one `stride` bytes behind the one before. A step waits for the NPU. "
        "Between two of them the NPU and its driver are free for others; the arena is not, until the end. To give a "
        "run up, begin another. After a negative status the run has ended."
    )
    if module.has_state:
        said.append(f"Variables keep what a run that was given up made of them, until {prefix}_reset.")
    return "/* " + "\n * ".join(textwrap.wrap(" ".join(said), 116, break_on_hyphens=False)) + " */"


def what_a_run_copies(module: Module) -> str:
    """What the header says of the run of a whole input to a whole output."""
    if not module.takes:
        return "Its rows are copied from the caller's input as they are wanted."
    rows = "Rows are copied to the caller's output as they are made"
    return f"{rows}." if not module.feeds else f"{rows}, and from its input as they are wanted."


def members(module: Module) -> tuple[str, ...]:
    """What a line in the table of calls has of rows; nothing where none are handed over."""
    if not module.is_streamed:
        return ()
    return ("offset", "rows", "is_taken") if module.takes else ("offset", "rows")


def row(module: Module, call: FeedCall | TakeCall) -> str:
    """A feed's line in the table of calls, or a take's."""
    is_taken = f", {int(isinstance(call, TakeCall))}u" if module.takes else ""
    return f"  {{NULL, 0, 0u, NULL, {call.offset}u, {call.rows}u{is_taken}}}"


def functions(module: Module, begin_parameters: Sequence[str], run_parameters: Sequence[str]) -> str:
    """The functions that begin and step, and the run of whole tensors; parameters by type and name."""
    pointers = [_where(module, name, pointer) for name, pointer in _handovers(module)]
    parts = [_begin(module, begin_parameters), *pointers, _step(module)]
    if not module.options.workspace_io:
        parts.append(_run(module, begin_parameters, run_parameters))
    return "\n\n".join(parts)


def _statuses(module: Module) -> tuple[str, str, str, str]:
    ok, running, failed, missing = (
        f"{module.macro}_{s.name}" for s in (status.OK, status.RUNNING, status.NPU_FAILED, status.POINTER_MISSING)
    )
    return ok, running, failed, missing


def _hook(module: Module, when: str, rest: str = "") -> str:
    return f'ETHOSCADE_{when}_CALL("{module.name}", job->call{rest});'


def _begin(module: Module, begin_parameters: Sequence[str]) -> str:
    prefix, macro = module.prefix, module.macro
    ok, running, _, missing = _statuses(module)
    parameters = ", ".join([f"struct {prefix}_job* job", *begin_parameters])
    arguments = ", ".join(["job", *(parameter.split()[-1] for parameter in begin_parameters)])
    return f"""/* Whether rows are handed over next. */
static bool {prefix}_hands_over(const struct {prefix}_job* job)
{{
  return job->call < {macro}_CALLS && {prefix}_calls[job->call].payload == NULL &&
         {prefix}_calls[job->call].cpu == NULL;
}}

/* Calls until rows are handed over or all is done. */
static int32_t {prefix}_go_on(struct {prefix}_job* job)
{{
  int32_t status;

  if ({prefix}_hands_over(job)) {{
    {_hook(module, "BEFORE")}
    return {running};
  }}
  status = {prefix}_reserve(job, job->devices);
  while (status == {ok} && job->call < {macro}_CALLS && !{prefix}_hands_over(job)) {{
    status = {prefix}_one(job);
  }}
  if (job->devices != NULL) {{
    job->devices->driver_result = job->driver_result;
  }}
  if (status == {ok} && job->call < {macro}_CALLS) {{
    {prefix}_release(job);
    {_hook(module, "BEFORE")}
    return {running};
  }}
  if (status != {ok}) {{
    job->call = {macro}_CALLS + 1;
  }}
  return {prefix}_close(job, status);
}}

int32_t {prefix}_begin({parameters})
{{
  int32_t status;

  if (job == NULL) {{
    return {missing};
  }}
  job->call = {macro}_CALLS + 1;
  status = {prefix}_open({arguments});
  return status == {ok} ? {prefix}_go_on(job) : status;
}}"""


def _ended(module: Module) -> str:
    """The status of a run of which nothing is left."""
    ok, _, failed, _ = _statuses(module)
    return f"""  if (job->call >= {module.macro}_CALLS) {{
    return job->call > {module.macro}_CALLS ? {failed} : {ok};
  }}"""


def _where(module: Module, name: str, pointer: str) -> str:
    prefix = module.prefix
    _, running, _, missing = _statuses(module)
    rows, calls = f"{prefix}_calls[job->call].rows", module.takes if name == "take" else module.feeds
    if module.feeds and module.takes:
        is_taken = f"{prefix}_calls[job->call].is_taken"
        rows = f"{is_taken} ? {rows} : 0" if name == "take" else f"{is_taken} ? 0 : {rows}"
    return f"""{_signature(module, name, pointer)}
{{
  if (job == NULL || where == NULL || rows == NULL || stride == NULL) {{
    return {missing};
  }}
{_ended(module)}
  *where = job->arena + {prefix}_calls[job->call].offset;
  *rows = {rows};
  *stride = {calls[0].row_bytes};
  return {running};
}}"""


def _step(module: Module) -> str:
    prefix = module.prefix
    ok, _, _, missing = _statuses(module)
    return f"""int32_t {prefix}_step(struct {prefix}_job* job)
{{
  if (job == NULL) {{
    return {missing};
  }}
{_ended(module)}
  {_hook(module, "AFTER", f", {ok}")}
  ++job->call;
  return {prefix}_go_on(job);
}}"""


def _run(module: Module, begin_parameters: Sequence[str], run_parameters: Sequence[str]) -> str:
    prefix = module.prefix
    _, running, _, missing = _statuses(module)
    arguments = ", ".join(["job", *(parameter.split()[-1] for parameter in begin_parameters)])
    absent, declared, begun, inside, moved = [], "", "", "", ""
    if module.feeds:
        tensor = f"inputs->{module.tensor_names[module.feeds[0].tensor]}"
        absent += ["inputs == NULL", f"{tensor} == NULL"]
        declared += "  const uint8_t* from;\n"
        begun += f"  from = (const uint8_t*){tensor};\n"
        inside += "    uint8_t* wanted;\n"
        moved += f"""    (void){prefix}_want(&job, &wanted, &rows, &stride);
    memcpy(wanted, from, (size_t)rows * stride);
    from += (size_t)rows * stride;
"""
    if module.takes:
        tensor = f"outputs->{module.tensor_names[module.takes[0].tensor]}"
        absent += ["outputs == NULL", f"{tensor} == NULL"]
        declared += "  uint8_t* to;\n"
        begun += f"  to = (uint8_t*){tensor};\n"
        inside += "    const uint8_t* made;\n"
        moved += f"""    (void){prefix}_take(&job, &made, &rows, &stride);
    memcpy(to, made, (size_t)rows * stride);
    to += (size_t)rows * stride;
"""
    return f"""int32_t {prefix}_run({", ".join(run_parameters)})
{{
  struct {prefix}_job job;
{declared}  int32_t status;

  if ({" || ".join(absent)}) {{
    return {missing};
  }}
{begun}  status = {prefix}_begin(&{arguments});
  while (status == {running}) {{
{inside}    uint32_t rows, stride;

{moved}    status = {prefix}_step(&job);
  }}
  return status;
}}"""
