"""Arm's TOSA reference model at work on a file: the second judge of TOSA graphs, where it is installed.

Owns the child process that it runs in and what is said to it. `ETHOSCADE_TOSA_MODEL` names a Python interpreter whose
environment has tosa-tools; without it there is no such judge.
"""

from __future__ import annotations

import io
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from ..errors import VerificationError
from ..ir import Array, DType, Graph, Tensor
from ..util.records import dataclass

INTERPRETER = "ETHOSCADE_TOSA_MODEL"
"""The environment's variable with the path of the interpreter."""

VALID = "TOSA_VALID"
UNPREDICTABLE = "TOSA_UNPREDICTABLE"

_CHILD = Path(__file__).with_name("tosa_child.py")
_TIMEOUT_SECONDS = 60


class TosaModelRefusal(VerificationError):
    """The model does not take the file; the message is its own."""


class TosaModelAbort(VerificationError):
    """The model ended its process, as it does on indices out of range, or did not answer in time."""


@dataclass(frozen=True, eq=False)
class ModelAnswer:
    """The model's verdict on a run, "TOSA_VALID" or another of its names, and the outputs in the graph's order."""

    status: str
    outputs: tuple[Array, ...]


def is_installed() -> bool:
    """Whether there is such a model to ask."""
    return bool(os.environ.get(INTERPRETER))


class TosaModel:
    """The model in its process, for many files; a context manager.

    At its end the process ends. A process that a file took with it is replaced at the next request.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TosaModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; another request starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def run(self, graph: Graph, inputs: Sequence[Array]) -> ModelAnswer:
        """What the model makes of `graph`'s file on `inputs`, in the graph's order.

        Raises `TosaModelRefusal`, also for outputs of int48, which the model's bindings do not tell, `TosaModelAbort`
        where it ends its process or does not answer within a minute, and `VerificationError` if it is not installed.
        """
        made = [graph.tensors[index] for index in graph.outputs]
        silent = next((tensor for tensor in made if tensor.dtype is DType.INT48), None)
        if silent is not None:
            raise TosaModelRefusal(f"the TOSA reference model does not tell int48, the type of output '{silent.name}'")
        request: dict[str, Array] = {"source": np.frombuffer(graph.source, np.uint8)}
        request |= {f"input_{number}": value for number, value in enumerate(inputs)}
        with np.load(io.BytesIO(self._ask(request))) as answer:
            if "error" in answer:
                raise TosaModelRefusal(f"the TOSA reference model refuses '{graph.name}': {answer['error']}")
            outputs = tuple(_values(answer[f"output_{number}"], tensor) for number, tensor in enumerate(made))
            return ModelAnswer(str(answer["status"]), outputs)

    def _ask(self, request: dict[str, Array]) -> bytes:
        child = self._child or self._start()
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **request)
        assert child.stdin is not None and child.stdout is not None, "started with pipes"
        slow = threading.Timer(_TIMEOUT_SECONDS, child.kill)
        # A process waits for its threads when it ends: not for this one, wherever it is interrupted.
        slow.daemon = True
        try:
            slow.start()
            child.stdin.write(len(stream.getbuffer()).to_bytes(8, "little"))
            child.stdin.write(stream.getbuffer())
            child.stdin.flush()
            size = int.from_bytes(child.stdout.read(8), "little")
            answer = child.stdout.read(size)
        except OSError:
            size, answer = 0, b""
        finally:
            slow.cancel()
        if not answer or len(answer) != size:
            self.close()
            raise TosaModelAbort(f"the TOSA reference model stopped with status {child.returncode}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        interpreter = os.environ.get(INTERPRETER)
        if not interpreter:
            raise VerificationError(
                f"the TOSA reference model is not installed: set {INTERPRETER} to a Python interpreter with tosa-tools"
            )
        try:
            # On an error the model looks for gdb, which would take minutes: nothing is found without a PATH.
            self._child = subprocess.Popen(
                [interpreter, str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PATH": ""},
            )
        except OSError as error:
            raise VerificationError(f"{INTERPRETER} names '{interpreter}', which does not run: {error}") from error
        return self._child


def _values(content: Array, tensor: Tensor) -> Array:
    """An output's bytes as its elements."""
    if tensor.dtype is DType.BOOL:
        return np.not_equal(content, 0).reshape(tensor.shape)
    return content.view(tensor.dtype.numpy).reshape(tensor.shape)
