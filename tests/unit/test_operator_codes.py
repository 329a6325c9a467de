"""Operator codes: the kind is the larger of two fields of the file, whichever of them is filled."""

from __future__ import annotations

import ethoscade
import flatbuffers
import pytest
import tflite
from codegen_support import cpu_artifact
from ethoscade.codegen import tflite as writer
from ethoscade.errors import ModelFormatError
from ethoscade.frontend import read_tflite
from ethoscade.ir.opcodes import builtin_code, stored_codes
from ethoscade.testing import ModelBuilder
from tflite_files import File, Op, T

IMAGE = (1, 4, 4, 8)


def two_operators(codes: str, second: str = "MUL") -> File:
    """An ADD and another operator of two operands behind it."""
    tensors = [T(name, IMAGE) for name in ("a", "b", "sum", "out")]
    operators = (Op("ADD", (0, 1), (2,), "AddOptions"), Op(second, (2, 1), (3,), "MulOptions"))
    return File(tensors, operators, (0, 1), (3,), codes=codes)


def kinds(data: bytes) -> list[str]:
    return [operator.kind for operator in read_tflite(data).operators]


@pytest.mark.parametrize("codes", ["both", "old", "new"])
def test_any_form_tells_the_kind(codes: str) -> None:
    assert kinds(two_operators(codes).bytes()) == ["ADD", "MUL"]


@pytest.mark.parametrize("codes", ["both", "new"])
def test_kinds_beyond_the_old_field(codes: str) -> None:
    assert kinds(two_operators(codes, "SQUARED_DIFFERENCE").bytes()) == ["ADD", "SQUARED_DIFFERENCE"]
    assert kinds(two_operators(codes, "BROADCAST_TO").bytes()) == ["ADD", "BROADCAST_TO"]


@pytest.mark.parametrize("codes", ["old", "new"])
def test_custom_operators(codes: str) -> None:
    assert kinds(two_operators(codes, "my_operator").bytes()) == ["ADD", "my_operator"]


def test_a_custom_operator_is_no_builtin_of_its_name() -> None:
    """Whatever it is called, it is kept for the CPU, and written as the custom operator that it is."""
    data = two_operators("both", "XUL").bytes().replace(b"XUL", b"ADD")
    compiled = ethoscade.compile(data)
    assert [(op.kind, op.where) for op in compiled.operators] == [("ADD", "npu"), ("CUSTOM_ADD", "cpu")]
    model = tflite.Model.GetRootAs(writer.write(compiled.artifact), 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    assert [code.CustomCode() for code in codes] == [b"ethos-u", b"ADD"]


@pytest.mark.parametrize("codes", ["old", "new"])
def test_whole_networks_compile_alike(codes: str) -> None:
    """The command stream depends on what the file says, not on how it says it."""

    def build(codes_in: str) -> bytes:
        b = ModelBuilder("net", codes_in=codes_in)
        x = b.max_pool(b.conv2d(b.input((1, 8, 8, 3)), 4), 2)
        b.softmax(b.fully_connected(b.reshape(x, (1, 64)), 5))
        return b.build()

    both, one = (ethoscade.compile(build(form)) for form in ("both", codes))
    assert [(op.kind, op.where) for op in one.operators] == [(op.kind, op.where) for op in both.operators]
    assert one.artifact.calls == both.artifact.calls
    assert writer.write(one.artifact) == writer.write(both.artifact)


@pytest.mark.parametrize("codes", ["both", "old", "new"])
def test_both_fields_are_written(codes: str) -> None:
    """Runtimes that look at one field alone read what was meant."""
    model = tflite.Model.GetRootAs(writer.write(cpu_artifact(two_operators(codes).bytes())), 0)
    written = [stored_codes(model.OperatorCodes(i)) for i in range(model.OperatorCodesLength())]
    assert written == [(0, 0), (tflite.BuiltinOperator.MUL,) * 2]


class Slots:
    """An operator code of the given fields."""

    def __init__(self, deprecated: int, new: int) -> None:
        b = flatbuffers.Builder(64)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, deprecated)
        tflite.OperatorCodeAddBuiltinCode(b, new)
        b.Finish(tflite.OperatorCodeEnd(b))
        self._tab = tflite.OperatorCode.GetRootAs(bytes(b.Output()), 0)._tab


@pytest.mark.parametrize(
    ("deprecated", "new", "number"),
    [
        (0, 0, 0),
        (3, 0, 3),
        (0, 18, 18),
        (3, 18, 18),
        (18, 3, 18),
        (127, 142, 142),
        (0, 142, 142),
        (-114, 142, 142),
        (-114, 0, 0),
        (0, -1, 0),
        (3, -5, 3),
        (-1, 3, 3),
    ],
)
def test_the_larger_field_counts(deprecated: int, new: int, number: int) -> None:
    assert builtin_code(Slots(deprecated, new)) == number


@pytest.mark.parametrize(("deprecated", "new"), [(127, 0), (127, 127), (0, 127), (-114, -1)])
def test_fields_that_name_no_operator(deprecated: int, new: int) -> None:
    assert builtin_code(Slots(deprecated, new)) is None


def test_a_code_that_names_no_operator_is_refused() -> None:
    file = two_operators("old", "BROADCAST_TO")
    with pytest.raises(ModelFormatError, match=r"operator code 1 .* 127 .* 0 .* name no operator") as caught:
        read_tflite(file.bytes())
    assert caught.value.value == (127, 0)
