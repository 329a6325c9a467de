"""Which reader a kind has, how many parameters it takes, and what becomes of an operator's names.

Owns the table of readers and the check of element types. What is refused, and why, stands in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir import Operator, Tensor
from ...ir.tosa import TosaAttrs
from ...ir.tosa_operators import TOSA_OPERATORS, TosaKind
from ...util.records import dataclass
from . import elementwise, moving, windows
from .fields import TableFields
from .schema import OPERATOR_NAMES
from .site import Numbers, TosaSite

KindReader = Callable[[TosaSite], "TosaAttrs | None"]

TOSA_READERS: Mapping[str, tuple[KindReader, int]] = {
    "tosa.argmax": (moving.argmax, 0),
    "tosa.avg_pool2d": (windows.avg_pool2d, 2),
    "tosa.conv2d": (windows.conv2d, 2),
    "tosa.conv3d": (windows.conv3d, 2),
    "tosa.depthwise_conv2d": (windows.depthwise_conv2d, 2),
    "tosa.matmul": (windows.matmul, 2),
    "tosa.max_pool2d": (windows.max_pool2d, 0),
    "tosa.transpose_conv2d": (windows.transpose_conv2d, 2),
    "tosa.clamp": (elementwise.clamp, 0),
    "tosa.arithmetic_right_shift": (elementwise.arithmetic_right_shift, 0),
    "tosa.mul": (elementwise.mul, 1),
    "tosa.table": (elementwise.table, 1),
    "tosa.negate": (elementwise.negate, 2),
    "tosa.concat": (moving.concat, 0),
    "tosa.pad": (moving.pad, 2),
    "tosa.reshape": (moving.reshape, 1),
    "tosa.reverse": (moving.reverse, 0),
    "tosa.slice": (moving.slice_, 2),
    "tosa.tile": (moving.tile, 1),
    "tosa.transpose": (moving.transpose, 0),
    "tosa.gather": (moving.gather, 0),
    "tosa.scatter": (moving.scatter, 0),
    "tosa.resize": (windows.resize, 3),
    "tosa.rescale": (elementwise.rescale, 4),
    **dict.fromkeys(
        ("tosa.abs", "tosa.bitwise_not", "tosa.cast", "tosa.clz", "tosa.identity", "tosa.logical_not"),
        (elementwise.same, 0),
    ),
    **dict.fromkeys(
        (
            "tosa.add", "tosa.bitwise_and", "tosa.bitwise_or", "tosa.bitwise_xor", "tosa.equal", "tosa.greater",
            "tosa.greater_equal", "tosa.intdiv", "tosa.logical_and", "tosa.logical_left_shift", "tosa.logical_or",
            "tosa.logical_right_shift", "tosa.logical_xor", "tosa.maximum", "tosa.minimum", "tosa.select", "tosa.sub",
        ),
        (elementwise.broadcast, 0),
    ),
    **dict.fromkeys(
        ("tosa.reduce_all", "tosa.reduce_any", "tosa.reduce_max", "tosa.reduce_min", "tosa.reduce_sum"),
        (moving.reduction, 0),
    ),
}  # fmt: skip
"""Of each kind its reader, and how many parameters follow its values."""


@dataclass(frozen=True)
class RawOperator:
    """An operator as the file has it: `code` is the specification's number, `operands` and `outputs` are names.

    `attribute_code` tells which table of the union `options` is.
    """

    index: int
    code: int
    operands: tuple[str, ...]
    outputs: tuple[str, ...]
    attribute_code: int
    options: TableFields | None

    @property
    def kind(self) -> str:
        """The kind's name as in the MLIR dialect."""
        is_known = self.code < len(OPERATOR_NAMES)
        return f"tosa.{OPERATOR_NAMES[self.code].lower()}" if is_known else f"tosa operator {self.code}"

    @property
    def name(self) -> str:
        """What messages and the graph call it: its output's name."""
        return self.outputs[0] if self.outputs and self.outputs[0] else f"operator {self.index}"


def read_operator(
    raw: RawOperator, tensors: Mapping[str, Tensor], shapes: Mapping[str, Numbers], numbers: Mapping[str, int]
) -> Operator:
    """One operator of the graph; `numbers` are the tensors' indices.

    Raises `ModelFormatError` for a contradiction, `UnsupportedOperatorError` for types that ethoscade does not take and
    for parameters known only at run time.
    """
    row = TOSA_OPERATORS[raw.kind]
    reader, parameters = TOSA_READERS[raw.kind]
    site = _site(raw, row, parameters, tensors, shapes)
    _check_types(site, row)
    attributes = reader(site)
    inputs = tuple(numbers[tensor.name] for tensor in site.values)
    return Operator(raw.kind, raw.name, inputs, (numbers[site.output.name],), attributes, raw.index)


def _site(
    raw: RawOperator, row: TosaKind, parameters: int, tensors: Mapping[str, Tensor], shapes: Mapping[str, Numbers]
) -> TosaSite:
    values = len(raw.operands) - parameters
    options = raw.options if raw.attribute_code == raw.code else None
    wanted = len(row.forms[0]) - 1
    bare = TosaSite(raw.kind, raw.name, raw.operands, (), Tensor("", (), row.forms[0][0]), tensors, shapes, options)
    if raw.attribute_code not in (0, raw.code):
        raise bare.fail(
            f"has attributes of kind {raw.attribute_code}; its own are {raw.code}", value=raw.attribute_code
        )
    if values < 1 or (values != wanted and not row.is_list):
        raise bare.fail(
            f"has {len(raw.operands)} operands; it takes {wanted + parameters}{' or more' * row.is_list}",
            value=len(raw.operands),
        )
    if len(raw.outputs) != 1:
        raise bare.fail(f"has {len(raw.outputs)} outputs; it makes 1", value=len(raw.outputs))
    for name in (*raw.operands[:values], *raw.outputs):
        if name not in tensors:
            raise bare.fail(f"refers to '{name}', which is no tensor of the file", value=name)
    found = tuple(tensors[name] for name in raw.operands[:values])
    return TosaSite(raw.kind, raw.name, raw.operands, found, tensors[raw.outputs[0]], tensors, shapes, options)


def _check_types(site: TosaSite, row: TosaKind) -> None:
    """Raises `UnsupportedOperatorError` for types for which the specification does not define the kind on integers."""
    types = (*(tensor.dtype for tensor in site.values), site.output.dtype)
    if row.is_list:
        types = tuple(dict.fromkeys(types[:-1])) + types[-1:]
    if types in row.forms:
        return
    said = " and ".join(f"'{tensor.name}' of {tensor.dtype.value}" for tensor in site.values)
    forms = "; ".join(f"{', '.join(one.value for one in form[:-1])} to {form[-1].value}" for form in row.forms)
    raise site.refuse(
        f"makes '{site.output.name}' of {site.output.dtype.value} from {said}; TOSA 1.0 defines, on integers: {forms}",
        "types of the profile PRO-INT",
    )
