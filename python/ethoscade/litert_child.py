"""Runs LiteRT's reference kernels as a process of its own: `python litert_child.py`, requests in, answers out.

The interpreter aborts the whole process on models it dislikes, so nobody imports this file; `litert` starts it by path.
It therefore imports nothing of ethoscade. A request is an 8-byte length and an .npz on standard input: `source`, a file
that is kept for the requests to come; `head`, what goes in front of it; `wanted` tensor indices, and those to be
`cleared` before a run; `runs`, how often to run; `input_R_T`, what tensor T holds before run R. The answer, on standard
output in the same form, has `value_R_T` for tensor T after run R, or `error`, why LiteRT refused.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

if __name__ == "__main__":
    del sys.path[0]  # this file's directory: its neighbours' names would hide other modules of the same name

import numpy as np


def _interpreter(model: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
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


def answer(request: Any, source: bytes) -> dict[str, Any]:
    """What LiteRT says to one request."""
    found: dict[str, Any] = {}
    try:
        interpreter = _interpreter(request["head"].tobytes() + source)
        for run in range(int(request["runs"])):
            _clear(interpreter, request["cleared"])
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
    except (RuntimeError, ValueError) as error:
        return {"error": np.array(str(error))}
    return found


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever LiteRT prints is no answer
    source = b""
    while header := requests.read(8):
        with np.load(io.BytesIO(requests.read(int.from_bytes(header, "little")))) as request:
            if "source" in request:
                source = request["source"].tobytes()
            stream = io.BytesIO()
            np.savez(stream, allow_pickle=False, **answer(request, source))
        answers.write(stream.tell().to_bytes(8, "little"))
        answers.write(stream.getbuffer())
        answers.flush()


if __name__ == "__main__":
    main()
