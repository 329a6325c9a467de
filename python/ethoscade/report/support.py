"""The page of supported operators: what runs where, of which types, within which limits.

Owns the page's form. Its sentences are those of the constraints, kernels and rules that decide: nothing about an
operator is said here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..codegen.c_kernels import KERNELS, CKernel
from ..ir import TFLITE_TYPES, Activation, DType
from ..ir.operators import OPERATORS, OperatorKind
from ..judge.judges import NOBODY_JUDGES
from ..lowering import FAMILIES, Family
from ..lowering.constraints import FeatureMaps
from ..rewrites import FOLDED
from ..targets.target import ACCELERATORS

_HEAD = """# Supported operators

What `ethoscade supported-ops --markdown` prints. The limits are those by which the compiler decides, the same for
{accelerators}. An operator beyond a limit stays on the CPU, and
`ethoscade compile` gives the reason, with the value found and the limit. On the CPU, TensorFlow Lite Micro runs
whatever it has a kernel for; kinds with a C kernel are also emitted as C. Kinds that vanish need no operation at all
where a rule finds that their neighbours can do their work. Any other kind of TensorFlow Lite's schema, and any custom
operator, stays on the CPU.
"""


def lines(kind: str) -> list[str]:
    """What limits a kind on the NPU, one sentence without a full stop for each constraint."""
    found = [str(constraint) for constraint in FAMILIES[kind].takes]
    fused = _fused(OPERATORS[kind])
    return [*found, *([f"fused activations: {fused}"] if fused else [])]


def text() -> str:
    """The kinds that run on the NPU, with what they run as and their limits, for a terminal."""
    found = []
    for kind, family in FAMILIES.items():
        found += [f"{kind:<20} {family.runs_as}", *(f"{'':<20} - {line}" for line in lines(kind))]
    vanishing = [f"{kind:<20} becomes {what}" for kind, what in FOLDED.items()]
    return "\n".join([*found, "", "No operation of their own:", *vanishing])


def page() -> str:
    """The page in Markdown."""
    *front, last = ACCELERATORS
    rows = [
        f"| {kind} | {_on_npu(kind)} | {'yes' if kind in FOLDED else ''} | {_in_c(KERNELS.get(kind, ()))} |"
        for kind in OPERATORS
    ]
    table = ["| operator | NPU | vanishes | C kernel |", "| --- | --- | --- | --- |", *rows]
    sections = [line for kind, row in OPERATORS.items() for line in _section(kind, row)]
    return "\n".join([_HEAD.format(accelerators=f"{', '.join(front)} and {last}"), *table, *sections, ""])


def _section(kind: str, row: OperatorKind) -> list[str]:
    found = ["", f"## {kind}", ""]
    if kind in FAMILIES:
        found += [f"On the NPU: {FAMILIES[kind].runs_as}.", "", *(f"- {line}" for line in lines(kind)), ""]
    if kind in FOLDED:
        found += [f"Becomes {FOLDED[kind]}.", ""]
    if kind in KERNELS:
        found += [f"As C: {_in_c(KERNELS[kind])}.", ""]
    if kind in NOBODY_JUDGES:
        found += [
            f"No runtime has a kernel of {_types(NOBODY_JUDGES[kind])}: `verify` names it and judges all else.",
            "",
        ]
    if kind not in FAMILIES and kind not in KERNELS:
        found += ["What is left of it stays on the CPU.", ""]
    return found[:-1]


def _on_npu(kind: str) -> str:
    return _types(_types_of(FAMILIES[kind])) if kind in FAMILIES else ""


def _types_of(family: Family) -> Sequence[DType]:
    """The types of an operator's values that the family names."""
    found = next(constraint for constraint in family.takes if isinstance(constraint, FeatureMaps))
    return (*found.types, DType.INT32) if found.words else found.types


def _in_c(kernels: Sequence[CKernel]) -> str:
    """The types that stay what they are, then what becomes of others; all types of a kind that keeps some stay."""
    pairs = {pair for kernel in kernels for pair in kernel.types or ()}
    kept = [dtype for dtype in TFLITE_TYPES if (dtype, dtype) in pairs]
    if not {source for source, _ in pairs} <= set(kept):
        kept = []
    found = ["any type"] if any(kernel.types is None for kernel in kernels) else []
    found += [_types(kept)] if kept else []
    for target in TFLITE_TYPES:
        sources = [dtype for dtype in TFLITE_TYPES if (dtype, target) in pairs and not (dtype is target and kept)]
        if sources:
            found.append(f"{'any type' if len(sources) == len(TFLITE_TYPES) else _types(sources)} to {target.value}")
    return "; ".join(found)


def _types(types: Sequence[DType] | None) -> str:
    return "any type" if types is None else ", ".join(dtype.value for dtype in types)


def _fused(row: OperatorKind) -> str:
    names = {field.name for field in dataclasses.fields(row.attributes)} if row.attributes else set()
    return ", ".join(one.name for one in Activation if one is not Activation.NONE) if "activation" in names else ""
