"""Runs reference kernels as a process of its own: `python litert_child.py INTERPRETER`, requests in, answers out.

INTERPRETER is `litert` for LiteRT's reference kernels, `litert_default` for those that it takes by itself, or `micro`
for TensorFlow Lite Micro, which has no access to variables. Each ends the whole process on models it dislikes, so
no module imports this file; `litert` starts it by path, and it imports nothing of ethoscade. A request is an 8-byte
length and an .npz on standard input: `source`, a file that is kept for the requests to come; `head`, what goes in front
of it; the model's `inputs`, the `wanted` tensors, and those to be `cleared` before a run, as indices; `runs`, how often
to run; `continued`, by run, whether variables are as the run before left them; `input_R_T`, what tensor T holds before
run R. The answer, on standard output in the same form, has `value_R_T` for tensor T after run R, or `error`, why the
interpreter refused.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

if __name__ == "__main__":
    del sys.path[0]  # this file's directory: its neighbours' names would hide other modules of the same name

import numpy as np

_MICRO_ARENA_BYTES = 1 << 26


def _interpreter(model: bytes, resolver: str) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType[resolver],
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    return interpreter


def _clear(interpreter: Any, tensors: Any) -> None:
    """Zeros where results will be."""
    for index in tensors:
        try:
            value = interpreter.get_tensor(int(index))
        except ValueError:
            continue
        if value.size:  # others get their memory with their shape, when the operator runs
            interpreter.set_tensor(int(index), np.zeros_like(value))


def litert(request: Any, model: bytes, resolver: str = "BUILTIN_REF") -> dict[str, Any]:
    """What LiteRT makes of one request."""
    found: dict[str, Any] = {}
    interpreter = _interpreter(model, resolver)
    for run in range(int(request["runs"])):
        _clear(interpreter, request["cleared"])
        if not request["continued"][run]:
            interpreter.reset_all_variables()
        given = f"input_{run}_"
        for name in request.files:
            if name.startswith(given):
                index = int(name.removeprefix(given))
                # The file may leave a shape to LiteRT, which then knows better than who read the file.
                interpreter.set_tensor(index, request[name].reshape(interpreter.get_tensor(index).shape))
        interpreter.invoke()
        for index in request["wanted"]:
            found[f"value_{run}_{index}"] = interpreter.get_tensor(int(index))
    return found


def litert_default(request: Any, model: bytes) -> dict[str, Any]:
    """What LiteRT's default kernels make of one request."""
    return litert(request, model, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")


def micro(request: Any, model: bytes) -> dict[str, Any]:
    """What TensorFlow Lite Micro makes of one request; a run that continues none has an interpreter of its own."""
    from tflite_micro.python.tflite_micro import runtime

    found: dict[str, Any] = {}
    if not int(request["runs"]):
        runtime.Interpreter.from_bytes(model, arena_size=_MICRO_ARENA_BYTES)
    for run in range(int(request["runs"])):
        if not request["continued"][run]:
            interpreter = runtime.Interpreter.from_bytes(model, arena_size=_MICRO_ARENA_BYTES)
        for number, index in enumerate(request["inputs"]):
            interpreter.set_input(request[f"input_{run}_{index}"], number)
        interpreter.invoke()
        for number, index in enumerate(request["wanted"]):
            found[f"value_{run}_{index}"] = np.array(interpreter.get_output(number))
    return found


def answer(word: str, request: Any, source: bytes) -> dict[str, Any]:
    """What the interpreter says to one request."""
    try:
        return {"litert": litert, "litert_default": litert_default, "micro": micro}[word](
            request, request["head"].tobytes() + source
        )
    except (RuntimeError, ValueError) as error:
        return {"error": np.array(str(error))}


def main(word: str) -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever an interpreter prints is no answer
    source = b""
    while header := requests.read(8):
        with np.load(io.BytesIO(requests.read(int.from_bytes(header, "little")))) as request:
            if "source" in request:
                source = request["source"].tobytes()
            stream = io.BytesIO()
            np.savez(stream, allow_pickle=False, **answer(word, request, source))
        answers.write(stream.tell().to_bytes(8, "little"))
        answers.write(stream.getbuffer())
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
