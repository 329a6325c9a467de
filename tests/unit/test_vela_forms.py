"""What the bench of forms works out itself: the forms, our reasons, its page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ethoscade.errors import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.ir.operators import OPERATORS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import operator_forms
import vela_forms
from vela_forms import Gap, Table


def test_vela_s_kinds_are_known_here() -> None:
    assert len(operator_forms.KINDS) == 55
    assert set(operator_forms.KINDS) <= set(OPERATORS)


@pytest.mark.parametrize("kind", operator_forms.KINDS)
def test_forms_are_files_of_that_kind(kind: str) -> None:
    """Each has words of its own, and the reader understands one at least, of int8."""
    words, understood = [], 0
    for form in operator_forms.forms(kind, DType.INT8):
        words.append(form.words)
        if understood:
            continue
        try:
            graph = read_tflite(form.model)
        except EthoscadeError:
            continue
        understood += any(op.kind == kind and op.opaque is None for op in graph.operators)
    assert understood and len(set(words)) == len(words)


def test_our_reason_is_the_compiler_s() -> None:
    by_words = {form.words: form.model for form in operator_forms.forms("TRANSPOSE", DType.INT8)}
    assert vela_forms.refusal(by_words["4x6 to (1, 0)"], "ethos-u55-128") is None
    long = next(form for form in operator_forms.forms("SOFTMAX", DType.INT8) if form.words == "1x4096")
    assert "it has 4096 channels" in (vela_forms.refusal(long.model, "ethos-u55-128") or "")


def test_the_page_joins_types_with_one_reason() -> None:
    table = Table()
    for dtype in (DType.INT8, DType.INT16):
        for form, verdict in zip(operator_forms.forms("TILE", dtype), ("exact", "", "", ""), strict=False):
            table.gaps.append(Gap(form, f"'t{len(table.gaps)}' has {len(table.gaps)} of them", verdict))
    rows = table.page().splitlines()
    assert rows[-1].startswith("| TILE | int8, int16 | ") and " and 1 more | 't0' has 0 of them | exact |" in rows[-1]
