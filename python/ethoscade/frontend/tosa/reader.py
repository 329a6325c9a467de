"""The file as a whole: header, version, the one block, and what its operators become.

Owns the pipeline from bytes to `ir.Graph` and the checks that concern more than one operator.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ...errors import ModelFormatError, UnsupportedOperatorError
from ...ir import Graph, Tensor
from ..source import read_source
from .fields import TableFields, open_file
from .operators import RawOperator, read_operator
from .refusals import check_kind
from .schema import OPERATOR_NAMES, BlockField, GraphField, OperatorField, RegionField, VersionField
from .site import Numbers
from .tensors import read_shapes, read_tensors

_VERSION = (1, 0)
_CONST, _CONST_SHAPE = OPERATOR_NAMES.index("CONST"), OPERATOR_NAMES.index("CONST_SHAPE")


def read_tosa(source: str | os.PathLike[str] | bytes, name: str | None = None) -> Graph:
    """Read a TOSA 1.0 flatbuffer from a path or from bytes.

    The graph's tensors have the file's indices; constants are read-only views of its bytes, without a CONST in front of
    them. Every other operator is one of the graph, in the file's order, with its constant parameters as attributes.
    The graph is called `name`, else after its file.

    Raises `ModelFormatError` for a file that cannot be read, is damaged or contradicts itself,
    `UnsupportedOperatorError` for operators and element types outside of TOSA 1.0 on integers, control flow, variables
    and shapes known only at run time, and `ConfigError` for a `source` that is neither path nor bytes.
    """
    return read_source(source, name, read_bytes)


def read_bytes(data: bytes, name: str) -> Graph:
    """The graph of a file's bytes. Raises as `read_tosa`."""
    file = open_file(data)
    _check_version(file.table(GraphField.VERSION, "version"))
    regions = file.tables(GraphField.REGIONS, "region")
    blocks = [block for region in regions for block in region.tables(RegionField.BLOCKS, "block")]
    if not blocks:
        raise ModelFormatError("the model has no block: there is nothing to compute", value=0)
    block = blocks[0]
    raw = _operators(block)
    for operator in raw:
        check_kind(operator)
    if len(blocks) > 1:
        raise UnsupportedOperatorError(
            f"the model has {len(blocks)} blocks, and only control flow runs another than the first; export the "
            f"network without data-dependent branches and loops",
            operator=blocks[1].text(BlockField.NAME) or "block 1",
            constraint="one block",
        )
    tensors = read_tensors(block.tables(BlockField.TENSORS, "tensor"), _users(raw))
    shapes = read_shapes(block.tables(BlockField.SHAPES, "shape"))
    return _graph(name, data, block, (raw, tensors, shapes))


def _graph(
    name: str,
    data: bytes,
    block: TableFields,
    parts: tuple[Sequence[RawOperator], Sequence[Tensor], Mapping[str, Numbers]],
) -> Graph:
    raw, tensors, shapes = parts
    by_name = {tensor.name: tensor for tensor in tensors}
    numbers = {tensor.name: index for index, tensor in enumerate(tensors)}
    operators = []
    for one in raw:
        if one.code in (_CONST, _CONST_SHAPE):
            _check_constant(one, by_name, shapes)
        else:
            operators.append(read_operator(one, by_name, shapes, numbers))
    if not operators:
        raise ModelFormatError("the model has no operators: there is nothing to compute", value=0)
    inputs, outputs = (_ends(block, field, numbers) for field in (BlockField.INPUTS, BlockField.OUTPUTS))
    for number in inputs:
        if tensors[number].is_constant:
            raise ModelFormatError(
                f"model input '{tensors[number].name}' has constant data", tensor=tensors[number].name
            )
    return Graph(name, tuple(tensors), tuple(operators), inputs, outputs, data).verify()


def _check_version(version: TableFields | None) -> None:
    if version is None:
        raise ModelFormatError("the model has no version; the file is damaged", value=None)
    found = version.integer(VersionField.MAJOR, -1), version.integer(VersionField.MINOR, -1)
    if found != _VERSION:
        raise ModelFormatError(
            f"the model is of TOSA {found[0]}.{found[1]}; ethoscade reads TOSA 1.0: export for 'TOSA-1.0+INT'",
            value=found,
            constraint="TOSA 1.0",
        )


def _operators(block: TableFields) -> list[RawOperator]:
    found = []
    for index, table in enumerate(block.tables(BlockField.OPERATORS, "operator")):
        found.append(
            RawOperator(
                index,
                table.unsigned(OperatorField.OP),
                tuple(table.texts(OperatorField.INPUTS)),
                tuple(table.texts(OperatorField.OUTPUTS)),
                table.byte(OperatorField.ATTRIBUTE_TYPE),
                table.table(OperatorField.ATTRIBUTE, f"attributes of operator {index}"),
            )
        )
    return found


def _users(operators: Sequence[RawOperator]) -> dict[str, RawOperator]:
    """The first operator with each name; a CONST only if no other has it."""
    found: dict[str, RawOperator] = {}
    for operator in sorted(operators, key=lambda one: one.code in (_CONST, _CONST_SHAPE)):
        for name in (*operator.operands, *operator.outputs):
            found.setdefault(name, operator)
    return found


def _check_constant(raw: RawOperator, tensors: Mapping[str, Tensor], shapes: Mapping[str, Numbers]) -> None:
    """CONST and CONST_SHAPE make what the file has data of."""
    for name in raw.outputs or ("",):
        tensor = tensors.get(name)
        is_there = name in shapes if raw.code == _CONST_SHAPE else tensor is not None and tensor.is_constant
        if not is_there:
            raise ModelFormatError(
                f"operator '{raw.name}' ({raw.kind}) makes '{name}', of which the file has no values",
                operator=raw.name,
                tensor=name,
                value=name,
            )


def _ends(block: TableFields, field: BlockField, numbers: Mapping[str, int]) -> tuple[int, ...]:
    names, what = block.texts(field), field.name.lower()
    if not names:
        raise ModelFormatError(f"the model has no {what}", value=0, constraint="inputs and outputs")
    missing = next((name for name in names if name not in numbers), None)
    if missing is not None:
        raise ModelFormatError(f"the model's {what} name '{missing}', which is no tensor of the file", value=missing)
    # What a network makes, it may hand out twice; what it is given has one value.
    if field is BlockField.INPUTS and len(set(names)) != len(names):
        raise ModelFormatError(f"the model's {what} name a tensor twice: {names}", value=names)
    return tuple(numbers[name] for name in names)
