"""What of TOSA is not read: operators and element types, each with its reason and what to do.

Owns these sentences.
"""

from __future__ import annotations

from ...errors import UnsupportedOperatorError
from .operators import RawOperator
from .schema import DTYPES, OPERATOR_NAMES, TYPE_NAMES

_REAL = (
    "computes with real numbers; quantise the whole network to int8 or int16 before it is lowered (ExecuTorch: "
    "EthosUQuantizer with a global configuration)"
)
_FLOW = (
    "runs other blocks of the file depending on values, and no static plan does; export the network without "
    "data-dependent branches and loops (torch.cond, while_loop)"
)
_STATE = (
    "keeps state outside of every tensor, which no delegate of ExecuTorch is given; make the state an input and an "
    "output of the network"
)
_CUSTOM = "has a meaning that only its vendor knows; keep it out of the delegate, on the CPU"
_LATER = "is none of TOSA 1.0; export for 'TOSA-1.0+INT'"

REFUSED = {
    **dict.fromkeys(
        (
            "FFT2D", "RFFT2D", "ERF", "SIGMOID", "TANH", "POW", "CEIL", "COS", "EXP", "FLOOR", "LOG", "RECIPROCAL",
            "RSQRT", "SIN", "REDUCE_PRODUCT",
        ),
        _REAL,
    ),
    **dict.fromkeys(("COND_IF", "WHILE_LOOP"), _FLOW),
    **dict.fromkeys(("VARIABLE", "VARIABLE_WRITE", "VARIABLE_READ"), _STATE),
    "CUSTOM": _CUSTOM,
    "UNKNOWN": "has no number in its file, which is damaged",
}  # fmt: skip
"""Operators of TOSA 1.0 without a reader, with the reason."""

_TYPE_REMEDIES = {
    "INT4": "quantise weights to int8",
    "INT64": "TOSA 1.0 has no such type: export for 'TOSA-1.0+INT'",
    "SHAPE": "shapes are parameters, no values: the file is damaged",
    "UNKNOWN": "the file is damaged",
}


def check_kind(raw: RawOperator) -> None:
    """Raises `UnsupportedOperatorError` for an operator without a reader."""
    name = OPERATOR_NAMES[raw.code] if raw.code < len(OPERATOR_NAMES) else None
    why = _LATER if name is None else REFUSED.get(name)
    if why is not None:
        raise UnsupportedOperatorError(
            f"operator '{raw.name}' ({raw.kind}) {why}", operator=raw.name, constraint="TOSA 1.0 on integers"
        )


def refuse_type(tensor: str, code: int, user: RawOperator | None) -> UnsupportedOperatorError:
    """The error for a tensor of an unread element type; `user` is its first operator."""
    name = TYPE_NAMES[code] if code < len(TYPE_NAMES) else f"number {code}"
    known = ", ".join(TYPE_NAMES[one] for one in DTYPES)
    where = "the file" if user is None else f"operator '{user.name}' ({user.kind})"
    return UnsupportedOperatorError(
        f"{where} has tensor '{tensor}' of type {name}; ethoscade reads {known}: "
        f"{_TYPE_REMEDIES.get(name, _REAL_TYPE)}",
        operator=tensor if user is None else user.name,
        constraint=f"element type {name}",
    )


_REAL_TYPE = "quantise the whole network to int8 or int16 (ExecuTorch: EthosUQuantizer with a global configuration)"
