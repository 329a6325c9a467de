"""A streamed input in the emitted C: a run in steps, before each of which the caller hands over rows.

Owns its part of the header and the functions that begin and step. Where rows go, the artefact's feeds say.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..artifact import FeedCall
from . import status
from .module import Module


def macros(module: Module) -> str:
    """How many rows arrive, and how long they are; "" where inputs are there as a whole."""
    if not module.feeds:
        return ""
    name = f"{module.macro}_{module.tensor_names[module.feeds[0].tensor].upper()}"
    rows = sum(feed.rows for feed in module.feeds)
    return f"""/* Rows that arrive in a run, how many at a time (at the end there may be fewer), and bytes of a row.
 * What is left of the input is not looked at. */
#define {name}_ROWS {rows}
#define {name}_ROWS_AT_ONCE {max(feed.rows for feed in module.feeds)}
#define {name}_ROW_BYTES {module.feeds[0].row_bytes}"""


def declarations(module: Module, begin_parameters: Sequence[str]) -> str:
    """What the header says; `begin_parameters` are those of a run's beginning."""
    if not module.feeds:
        return ""
    prefix = module.prefix
    goes_on = f"When they are there, {prefix}_step goes on."
    if module.feeds[0].is_ahead:
        goes_on = (
            f"Then {prefix}_step goes on with the rows before these,\n * which must be there; these may arrive "
            "meanwhile. At the end no rows are wanted, for the last ones to arrive."
        )
    begun = f"int32_t {prefix}_begin("
    parameters = (",\n" + " " * len(begun)).join((f"struct {prefix}_job* job", *begin_parameters))
    return f"""/* A run whose input arrives row by row. {prefix}_begin and {prefix}_step return RUNNING while rows are
 * wanted, and OK once all is done. While they are wanted, {prefix}_want returns where the next `rows` rows go:
 * the first one from `where` on, each `stride` bytes behind the one before.
 * {goes_on}
 * A step waits for the NPU. Between two of them the NPU and its driver are free for others; the arena is not, until the
 * end. To give a run up, begin another. After a negative status the run has ended. */
{begun}{parameters});
int32_t {prefix}_want(const struct {prefix}_job* job, uint8_t** where, uint32_t* rows, uint32_t* stride);
int32_t {prefix}_step(struct {prefix}_job* job);"""


def row(module: Module, feed: FeedCall) -> str:
    """A feed's line in the table of calls."""
    return f"  {{NULL, 0, 0u, NULL, {feed.offset}u, {feed.rows}u}}"


def functions(module: Module, begin_parameters: Sequence[str], run_parameters: Sequence[str]) -> str:
    """The functions that begin and step, and the run of a whole input; parameters by type and name."""
    parts = [_steps(module, begin_parameters)]
    if not module.options.workspace_io:
        parts.append(_run(module, begin_parameters, run_parameters))
    return "\n\n".join(parts)


def _steps(module: Module, begin_parameters: Sequence[str]) -> str:
    prefix, macro = module.prefix, module.macro
    ok, running, failed, missing = (
        f"{macro}_{s.name}" for s in (status.OK, status.RUNNING, status.NPU_FAILED, status.POINTER_MISSING)
    )
    parameters = ", ".join([f"struct {prefix}_job* job", *begin_parameters])
    arguments = ", ".join(["job", *(parameter.split()[-1] for parameter in begin_parameters)])
    hook = f'ETHOSCADE_{{}}_CALL("{module.name}", job->call{{}});'
    return f"""/* Whether rows are what comes next. */
static bool {prefix}_wants(const struct {prefix}_job* job)
{{
  return job->call < {macro}_CALLS && {prefix}_calls[job->call].payload == NULL &&
         {prefix}_calls[job->call].cpu == NULL;
}}

/* Calls until rows are wanted or all is done. */
static int32_t {prefix}_go_on(struct {prefix}_job* job)
{{
  int32_t status;

  if ({prefix}_wants(job)) {{
    {hook.format("BEFORE", "")}
    return {running};
  }}
  status = {prefix}_reserve(job, job->devices);
  while (status == {ok} && job->call < {macro}_CALLS && !{prefix}_wants(job)) {{
    status = {prefix}_one(job);
  }}
  if (job->devices != NULL) {{
    job->devices->driver_result = job->driver_result;
  }}
  if (status == {ok} && job->call < {macro}_CALLS) {{
    {prefix}_release(job);
    {hook.format("BEFORE", "")}
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
  status = {prefix}_open({arguments});
  return status == {ok} ? {prefix}_go_on(job) : status;
}}

int32_t {prefix}_want(const struct {prefix}_job* job, uint8_t** where, uint32_t* rows, uint32_t* stride)
{{
  if (job == NULL || where == NULL || rows == NULL || stride == NULL) {{
    return {missing};
  }}
  if (job->call >= {macro}_CALLS) {{
    return job->call > {macro}_CALLS ? {failed} : {ok};
  }}
  *where = job->arena + {prefix}_calls[job->call].offset;
  *rows = {prefix}_calls[job->call].rows;
  *stride = {module.feeds[0].row_bytes};
  return {running};
}}

int32_t {prefix}_step(struct {prefix}_job* job)
{{
  if (job == NULL) {{
    return {missing};
  }}
  if (job->call >= {macro}_CALLS) {{
    return job->call > {macro}_CALLS ? {failed} : {ok};
  }}
  {hook.format("AFTER", f", {ok}")}
  ++job->call;
  return {prefix}_go_on(job);
}}"""


def _run(module: Module, begin_parameters: Sequence[str], run_parameters: Sequence[str]) -> str:
    prefix = module.prefix
    running, missing = (f"{module.macro}_{s.name}" for s in (status.RUNNING, status.POINTER_MISSING))
    arguments = ", ".join(["job", *(parameter.split()[-1] for parameter in begin_parameters)])
    name = module.tensor_names[module.feeds[0].tensor]
    return f"""int32_t {prefix}_run({", ".join(run_parameters)})
{{
  struct {prefix}_job job;
  const uint8_t* from;
  int32_t status;

  if (inputs == NULL || inputs->{name} == NULL) {{
    return {missing};
  }}
  from = (const uint8_t*)inputs->{name};
  status = {prefix}_begin(&{arguments});
  while (status == {running}) {{
    uint8_t* where;
    uint32_t rows, stride;

    status = {prefix}_want(&job, &where, &rows, &stride);
    if (status == {running}) {{
      memcpy(where, from, (size_t)rows * stride);
      from += (size_t)rows * stride;
      status = {prefix}_step(&job);
    }}
  }}
  return status;
}}"""
