"""Runs Arm's TOSA reference model as a process of its own: `python tosa_child.py`, requests in, answers out.

The interpreter of this process has tosa-tools, whose pins and top-level names no other environment wants: this file
imports nothing of ethoscade. A request is an 8-byte length and an .npz on standard input: `source`, the TOSA file, and
`input_N` for its input N. The answer, on standard output in the same form, has `status`, the name of the model's
verdict, and `output_N`, the bytes of output N; or `error`, why the model refused the file.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

if __name__ == "__main__":
    del sys.path[0]  # this file's directory: its neighbours' names would hide other modules of the same name

import numpy as np


def answer(request: Any) -> dict[str, Any]:
    """What the model says to one request."""
    import tosa_reference_model

    inputs = [request[f"input_{number}"] for number in range(len(request.files) - 1)]
    try:
        outputs, status = tosa_reference_model.run(request["source"].tobytes(), inputs, verbosity="NONE")
    except (RuntimeError, ValueError) as error:
        return {"error": np.array(str(error))}
    found = {f"output_{number}": np.frombuffer(value.tobytes(), np.uint8) for number, value in enumerate(outputs)}
    return {"status": np.array(status.name), **found}


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the model prints is no answer
    while header := requests.read(8):
        with np.load(io.BytesIO(requests.read(int.from_bytes(header, "little")))) as request:
            stream = io.BytesIO()
            np.savez(stream, allow_pickle=False, **answer(request))
        answers.write(stream.tell().to_bytes(8, "little"))
        answers.write(stream.getbuffer())
        answers.flush()


if __name__ == "__main__":
    main()
