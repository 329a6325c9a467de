"""The operators of a subgraph: which kinds are understood, and the two-line fate of all others.

Owns the table of readers and the names of operators. The kinds that a file of readers knows stand at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelFormatError, UnsupportedOperatorError
from ..ir import ETHOS_U, Attrs, Operator, Tensor, schema
from ..ir.opcodes import builtin_code, stored_codes
from ..ir.operators import CALLERS, RESOURCE_KINDS, keyed
from . import binary, channels, elementwise, functions, matrices, moving, recurrent, shaping, svdf, windows
from .flatbuffer import Ledger, integers, union
from .site import NotUnderstood, Site
from .tensors import why_meaningless

_BUILTIN_KINDS = frozenset(k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int))
_BUILTIN_NAMES = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
READERS = keyed(
    windows.WINDOW_READERS,
    binary.BINARY_READERS,
    elementwise.ELEMENTWISE_READERS,
    functions.FUNCTION_READERS,
    shaping.SHAPE_READERS,
    channels.CHANNEL_READERS,
    matrices.MATRIX_READERS,
    moving.MOVE_READERS,
    recurrent.RECURRENT_READERS,
    svdf.SVDF_READERS,
)
"""What reads the attributes of each kind."""


def read_kinds(codes: Sequence[Any]) -> list[str]:
    """The kind behind every operator code: builtin names, or the custom operator's own, which is no builtin's.

    Raises `ModelFormatError` for a code that names no operator.
    """
    kinds = []
    for index, code in enumerate(codes):
        number = builtin_code(code)
        if number is None:
            deprecated, new = stored_codes(code)
            raise ModelFormatError(
                f"operator code {index} has code {deprecated} in the deprecated field and {new} in the new one; "
                f"together they name no operator",
                value=(deprecated, new),
            )
        if number == schema.BuiltinOperator.CUSTOM:
            name = (code.CustomCode() or b"").decode("utf-8", "replace") or f"CUSTOM_{index}"
            # A custom operator may be called ADD and be another thing: no rule for ADD is a rule for it.
            kinds.append(f"CUSTOM_{name}" if name in _BUILTIN_KINDS else name)
        else:
            kinds.append(_BUILTIN_NAMES.get(number, f"BUILTIN_{number}"))
    return kinds


def read_operators(
    raw: Sequence[Any],
    kinds: Sequence[str],
    tensors: tuple[Tensor, ...],
    ledger: Ledger,
    faults: list[str] | None = None,
) -> tuple[Operator, ...]:
    """Every operator in the file's order. One that contradicts itself is opaque where `faults` are noted.

    Raises `ModelFormatError` for one that contradicts itself or its tensors, `UnsupportedOperatorError` for one that
    runs another subgraph.
    """
    taken: set[str] = set()
    found = []
    meaningless = {index: why for index, tensor in enumerate(tensors) if (why := why_meaningless(tensor)) is not None}
    # Readers see no scales where these mean nothing.
    seen = tuple(replace(t, quantisation=None) if i in meaningless else t for i, t in enumerate(tensors))
    for index, operator in enumerate(raw):
        code = int(operator.OpcodeIndex())
        if code >= len(kinds):
            raise ModelFormatError(
                f"operator {index} has operator code {code}; the file has {len(kinds)}",
                operator=f"operator {index}",
                value=code,
            )
        site = _open_site(operator, index, kinds[code], seen, taken, ledger)
        between = _tensor_indices(integers(operator, "Intermediates"), f"{site.kind} {index}", tensors, optional=False)
        known = tuple(t for t in between if t is not None)
        try:
            attrs, opaque = _understand(site), None
        except NotUnderstood as reason:
            attrs, opaque = None, str(reason)
        except ModelFormatError as error:
            # A compiler wrote it, and a runtime may run it all the same.
            if faults is None:
                raise
            attrs, opaque = None, str(error)
            faults.append(str(error))
        meant = (meaningless.get(t) for t in (*site.inputs, *site.outputs, *known) if t is not None)
        if opaque is None and (why := next(filter(None, meant), None)) is not None:
            attrs, opaque = None, why
        found.append(Operator(site.kind, site.name, site.inputs, site.outputs, attrs, index, opaque, known))
    return tuple(found)


def _open_site(raw: Any, index: int, kind: str, tensors: tuple[Tensor, ...], taken: set[str], ledger: Ledger) -> Site:
    """An operator as readers see it."""
    inputs = _tensor_indices(integers(raw, "Inputs"), f"{kind} {index}", tensors, optional=True)
    outputs = tuple(
        t
        for t in _tensor_indices(integers(raw, "Outputs"), f"{kind} {index}", tensors, optional=False)
        if t is not None
    )
    # Operators have no names in the file; people know them by what they make.
    name = tensors[outputs[0]].name if outputs else f"{kind}_{index}"
    while name in taken:
        name = f"{name}#{index}"
    taken.add(name)

    def open_options(accessor_type: Any, union_type: int) -> Any | None:
        if int(raw.BuiltinOptionsType()) != union_type:
            return None
        return union(raw, accessor_type, f"options of operator '{name}'", ledger)

    return Site(kind, name, inputs, outputs, tensors, open_options)


def _understand(site: Site) -> Attrs:
    reader = READERS.get(site.kind)
    if reader is not None:
        return reader(site)
    if site.kind in RESOURCE_KINDS:
        raise NotUnderstood("its variable is known by other means")
    if site.kind == ETHOS_U:
        raise NotUnderstood("already compiled for an Ethos-U NPU")
    # A compiled file has one subgraph: without theirs, such an operator would run another than it means, or none.
    if site.kind in CALLERS:
        raise UnsupportedOperatorError(
            f"operator '{site.name}' ({site.kind}) runs another subgraph of the file; ethoscade compiles networks "
            f"of one subgraph: convert the model without control flow",
            operator=site.name,
            constraint="one subgraph",
        )
    raise NotUnderstood(f"{site.kind} has no NPU implementation")


def _tensor_indices(
    numbers: Sequence[int], where: str, tensors: tuple[Tensor, ...], *, optional: bool
) -> tuple[int | None, ...]:
    found: list[int | None] = []
    for number in numbers:
        if number == -1 and optional:
            found.append(None)
        elif 0 <= number < len(tensors):
            found.append(number)
        else:
            raise ModelFormatError(
                f"operator {where} refers to tensor {number}; the file has {len(tensors)}",
                operator=where,
                value=number,
            )
    return tuple(found)
