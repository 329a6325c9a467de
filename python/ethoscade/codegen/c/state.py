"""State in the emitted C: variables that stay in the arena from one run to the next.

Owns the text that sets them up, and that carries over what a run left elsewhere. Which bytes those are, `layout` says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ...errors import CodegenError
from ...ir import Variable
from ..artifact import Artifact
from ..layout import carried_over

Symbol = Callable[[int], str]
"""The array that holds the initial value of a variable, by number."""


def check(artifact: Artifact) -> None:
    """Raises `CodegenError` for an output that would be written over when the run ends, for the next one's state."""
    graph, offsets = artifact.graph, artifact.offsets
    moved = [graph.variables[number] for turn in carried_over(artifact) for number in turn]
    for variable in moved:
        place = range(offsets[variable.before], offsets[variable.before] + graph.tensors[variable.before].size_bytes)
        for index in graph.handed_out:
            # Rows that are taken one after the other are gone by then.
            at = None if index in artifact.elsewhere else offsets.get(index)
            if at is not None and at < place.stop and place.start < at + graph.tensors[index].size_bytes:
                raise CodegenError(
                    f"output '{graph.tensors[index].name}' is what variable '{variable.name}' held before the run, "
                    f"which C sources write over at its end; write a .tflite file"
                )


def arrays(artifact: Artifact) -> dict[int, bytes]:
    """The initial values that need an array, by the variable's number: all that are not one byte again and again."""
    values = {number: _bytes(variable) for number, variable in enumerate(artifact.graph.variables)}
    return {number: value for number, value in values.items() if len(set(value)) > 1}


def declaration(prefix: str, parameter: str) -> str:
    """What the header says; `parameter` is that of a function that needs the arena."""
    return f"""/* The network keeps state in the arena from one run to the next: no other code may write there in
 * between. It is set up before the first run. This sets it up again: for another stream, or after a run that failed. */
int32_t {prefix}_reset({parameter});"""


def definition(artifact: Artifact, prefix: str, symbol: Symbol) -> str:
    """The functions that set the state up in `arena`, and that move it to where the next run looks for it."""
    offsets, held = artifact.offsets, arrays(artifact)
    lines = []
    for number, variable in enumerate(artifact.graph.variables):
        target, value = f"arena + {offsets[variable.before]}", _bytes(variable)
        if number in held:
            lines.append(f"  memcpy({target}, {symbol(number)}, {len(value)});")
        else:
            lines.append(f"  memset({target}, {value[0]}, {len(value)});")
    parts = [f"static void {prefix}_set_up(uint8_t* arena)\n{{\n" + "\n".join(lines) + "\n}"]
    if carried_over(artifact):
        parts.append(_carry(artifact, prefix))
    return "\n\n".join(parts)


def reset(prefix: str, parameter: str, argument: str, arena: str, flag: str) -> str:
    """The function that sets the state up again; `flag` is the expression that says whether it is there."""
    macro = prefix.upper()
    return f"""int32_t {prefix}_reset({parameter})
{{
  const int32_t status = {prefix}_check_memory({argument});

  if (status == {macro}_OK) {{
    {prefix}_set_up({arena});
    {flag} = 1;
  }}
  return status;
}}"""


def before_run(prefix: str, arena: str, flag: str) -> str:
    """The lines at the beginning of a run."""
    return f"  if (!{flag}) {{\n    {prefix}_set_up({arena});\n    {flag} = 1;\n  }}"


def after_run(artifact: Artifact, prefix: str, arena: str) -> str:
    """The lines at the end of one, if any."""
    return f"  {prefix}_carry_over({arena});" if carried_over(artifact) else ""


def _carry(artifact: Artifact, prefix: str) -> str:
    graph, offsets = artifact.graph, artifact.offsets
    lines: list[str] = []
    rings = False
    for turn in carried_over(artifact):
        size = graph.tensors[graph.variables[turn[0]].before].size_bytes
        places = [f"arena + {offsets[graph.variables[number].before]}" for number in turn]
        after = graph.variables[turn[0]].after
        if len(turn) == 1:
            constant = graph.tensors[after].is_constant
            source = constant_symbol(prefix, after) if constant else f"arena + {offsets[after]}"
            lines.append(f"  memmove({places[0]}, {source}, {size});")
            continue
        rings = True
        lines += [f"  for (i = 0; i < {size}; ++i) {{", f"    const uint8_t first = ({places[0]})[i];"]
        lines += [f"    ({to})[i] = ({of})[i];" for to, of in itertools.pairwise(places)]
        lines += [f"    ({places[-1]})[i] = first;", "  }"]
    declared = "  size_t i;\n\n" if rings else ""
    return (
        "/* What variables hold from now on, to where the next run looks for it. */\n"
        f"static void {prefix}_carry_over(uint8_t* arena)\n{{\n{declared}" + "\n".join(lines) + "\n}"
    )


def constant_symbol(prefix: str, tensor: int) -> str:
    """The array of a constant tensor."""
    return f"{prefix}_tensor_{tensor}"


def _bytes(variable: Variable) -> bytes:
    return np.ascontiguousarray(variable.initial).tobytes()
