"""Whether others take a file that is refused here: LiteRT as it is written, and Vela; each in a process of its own.

LiteRT takes a file as it is written if it prepares and runs it and gives no tensor another shape: kernels work shapes
out anew, and memory that was planned by the file's shapes would not hold what they write.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import ethoscade
import numpy as np
import tflite
from ethoscade.errors import EthoscadeError, ModelFormatError, UnsupportedOperatorError
from model_mutations import outcome

TAKES = "takes"
_RESOLVERS = ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")


def litert(data: bytes) -> str:
    """`TAKES` where kernels of either kind run the file as it is written, else why the last ones do not."""
    said = "not asked"
    for resolver in _RESOLVERS:
        said, _, _ = outcome(data, _in_litert(resolver))
        if said == TAKES:
            break
    return said


def vela(data: bytes) -> str:
    """`TAKES` where Vela compiles the file, else what it says."""
    return outcome(data, _in_vela)[0]


def warm_up() -> None:
    """Import both once, so that children need not."""
    from ai_edge_litert import interpreter  # noqa: F401
    from ethosu.vela import vela as _  # noqa: F401


def _in_litert(resolver: str) -> Callable[[bytes], str]:
    def run(data: bytes) -> str:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        try:
            interpreter = Interpreter(
                model_content=data, experimental_op_resolver_type=getattr(OpResolverType, resolver)
            )
            interpreter.allocate_tensors()
            for given in interpreter.get_input_details():
                interpreter.set_tensor(given["index"], np.zeros(given["shape"], given["dtype"]))
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            return str(error)
        graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
        for found in interpreter.get_tensor_details()[: graph.TensorsLength()]:
            tensor = graph.Tensors(found["index"])
            written = tensor.ShapeAsNumpy().tolist() if tensor.ShapeLength() else []
            if written != found["shape"].tolist():
                return f"tensor {found['index']} gets shape {found['shape'].tolist()}, the file has {written}"
        return TAKES

    return run


def _in_vela(data: bytes) -> str:
    from ethosu.vela import vela as compiler

    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "model.tflite"), Path(folder, "made")
        source.write_bytes(data)
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                compiler.main([str(source), "--output-dir", str(made), "--accelerator-config", "ethos-u55-256"])
        except SystemExit as end:
            if end.code:
                return f"status {end.code}: {said.getvalue()[-200:]}"
        except Exception as error:  # noqa: BLE001 - whatever it says, it does not take the file
            return f"{type(error).__name__}: {error}"
        return TAKES if any(made.glob("*_vela.tflite")) else f"no file: {said.getvalue()[-200:]}"


NO_NETWORK: Mapping[str, str] = {
    "references inside the file": "LiteRT's Python API follows references unchecked",
    "operators in order": "an operator reads memory before it is written",
    "one maker of a tensor": "two write one tensor",
    "outputs that operators make": "an output is whatever the memory holds",
    "inputs without data": "what a caller gives is a constant",
    "at least one operator": "no operator, or no subgraph",
    "inputs and outputs": "neither of them",
    "each input once": "one input has two values",
    "one type of what is moved": "kernels copy the input's bytes, whatever the output holds",
    "variables that are set before they are read": "READ_VARIABLE makes a tensor of nothing",
    "as many begins, ends and strides": "LiteRT reads one for each dimension, unchecked (strided_slice.cc)",
    "one type of a variable": "READ_VARIABLE copies bytes, whatever the tensors hold",
    "element type INT4": "NumPy has no such elements",
    "element type BFLOAT16": "NumPy has no such elements",
    "full-integer quantisation": "nothing is for the NPU",
}
"""What is refused on purpose though LiteRT and Vela look past it, by the error's `constraint`, and why."""


def refused_alone(data: bytes) -> str | None:
    """Our reason against a file that LiteRT and Vela both take, None where there is none or where it is on purpose."""
    words, _, _ = outcome(data, refusal)
    constraint, _, why = words.partition("\n")
    if words == TAKES or constraint in NO_NETWORK:
        return None
    return why if litert(data) == TAKES and vela(data) == TAKES else None


def refusal(data: bytes) -> str:
    """`TAKES`, or the rule that the error names, and its sentence on the lines behind."""
    try:
        ethoscade.compile(data)
    except (ModelFormatError, UnsupportedOperatorError) as error:
        return f"{error.constraint or ''}\n{error}"
    except EthoscadeError as error:
        return f"\n{error}"
    return TAKES
