"""Runs LiteRT's reference kernels as a process of its own: `python litert_child.py REQUEST.npz ANSWER.npz`.

The interpreter aborts the whole process on models it dislikes, so nobody imports this file; `verification` starts it by
path. It therefore imports nothing of ethoscade. Request: `model` (bytes as uint8), `wanted` (tensor indices), and
`input_R_I` for input number I of run R. Answer: `value_R_T` for tensor T of run R.
"""

from __future__ import annotations

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


def main(request_path: str, answer_path: str) -> None:
    """Answer one request."""
    with np.load(request_path) as request:
        interpreter = _interpreter(request["model"].tobytes())
        details = interpreter.get_input_details()
        answer, run = {}, 0
        while f"input_{run}_0" in request:
            for number, detail in enumerate(details):
                interpreter.set_tensor(detail["index"], request[f"input_{run}_{number}"])
            interpreter.reset_all_variables()
            interpreter.invoke()
            for index in request["wanted"]:
                answer[f"value_{run}_{index}"] = interpreter.get_tensor(int(index))
            run += 1
    np.savez(answer_path, **answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
