"""Interpreters' kernels at work on a file's operators: all of them, or some with inputs and outputs of their own.

Owns the child process that LiteRT, or TensorFlow Lite Micro, runs in and what is said to it. Which operators run, and
what their results mean, is the callers' business.
"""

from __future__ import annotations

import importlib.util
import io
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import VerificationError
from ..ir import Array
from ..util.records import dataclass
from ..util.temporary import make_file
from . import litert_models

Values = Mapping[int, Array]

_CHILD = Path(__file__).with_name("litert_child.py")
_TIMEOUT_SECONDS = 900
_ERROR_BYTES = 4096


@dataclass(frozen=True)
class Interpreter:
    """An interpreter: its name in messages, the child's word for it, the package that has it and how to get that."""

    name: str
    word: str
    package: str
    advice: str


LITERT = Interpreter("LiteRT", "litert", "ai_edge_litert", 'pip install "ethoscade[verify]"')
LITERT_DEFAULT = Interpreter("LiteRT with its default kernels", "litert_default", LITERT.package, LITERT.advice)
"""The kernels that applications get, without delegates: it knows later versions of some operators than `LITERT` does.
"""
MICRO = Interpreter("TensorFlow Lite Micro", "micro", "tflite_micro", "pip install --pre tflite_micro")


class LitertRefusal(VerificationError):
    """The interpreter does not take these operators; the message is its own."""


class LitertAbort(LitertRefusal):
    """The interpreter ended its process on them."""


def is_installed(interpreter: Interpreter = LITERT) -> bool:
    """Whether there is such an interpreter to ask."""
    return importlib.util.find_spec(interpreter.package) is not None


class Session:
    """One file in an interpreter, for many requests; a context manager that ends the child process.

    A child that an operator took with it is replaced at the next request.
    """

    def __init__(self, source: bytes, name: str, interpreter: Interpreter = LITERT) -> None:
        """`source` is the file, `name` the model's in messages."""
        self._interpreter = interpreter
        self._source = litert_models.acceptable(source)
        self._name = name
        self._child: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child process; another request starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()
        if self._said is not None:
            self._said.close()
            self._said = None

    def inputs_of(self, operators: Sequence[int]) -> list[list[int]]:
        """The inputs of the file's operators, -1 for one that is left out."""
        return litert_models.inputs_of(self._source, operators)

    def run(
        self,
        operators: Sequence[int],
        inputs: Sequence[int],
        wanted: Sequence[int],
        runs: Sequence[Values],
        continued: Sequence[bool] = (),
    ) -> list[dict[int, Array]]:
        """The values of the tensors `wanted` after `operators` ran on each of `runs`.

        Without runs the operators are only prepared. They and the tensors are the file's indices. A run has a value for
        each of `inputs`, and may have one for variables; other variables are reset before it, unless it is `continued`
        (by run; left out: none is): then they are as the run before left them. Micro takes none for variables, and
        tells only outputs.
        Raises `LitertRefusal`, `LitertAbort`, and `VerificationError` if the interpreter is not installed or does not
        answer.
        """
        try:
            head = litert_models.head(self._source, operators, inputs, wanted)
            cleared = litert_models.custom_outputs(self._source, operators)
        except (struct.error, LookupError, ValueError, TypeError) as error:
            raise LitertRefusal(f"no operator can be taken out of the file of '{self._name}': {error}") from error
        request: dict[str, Array] = {
            "head": np.frombuffer(head, np.uint8),
            "inputs": np.array(inputs, np.int64),
            "wanted": np.array(wanted, np.int64),
            "cleared": np.array(cleared, np.int64),
            "runs": np.array(len(runs)),
            "continued": np.array([*continued, *([False] * (len(runs) - len(continued)))], bool),
        }
        for run, values in enumerate(runs):
            request |= {f"input_{run}_{index}": value for index, value in values.items()}
        with np.load(io.BytesIO(self._ask(request))) as answer:
            if "error" in answer:
                raise LitertRefusal(
                    f"{self._interpreter.name} refuses model '{self._name}': {' '.join(str(answer['error']).split())}"
                )
            return [{index: answer[f"value_{run}_{index}"] for index in wanted} for run in range(len(runs))]

    def _ask(self, request: dict[str, Array]) -> bytes:
        if self._child is None:
            request["source"] = np.frombuffer(self._source, np.uint8)
            self._start()
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None, (
            "started just now, with pipes"
        )
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **request)
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
            raise self._ended(child)
        return answer

    def _start(self) -> None:
        interpreter = self._interpreter
        if not is_installed(interpreter):
            raise VerificationError(
                f"verification needs {interpreter.name}, which is not installed: {interpreter.advice}"
            )
        self._said = make_file()
        try:
            self._child = subprocess.Popen(
                [sys.executable, str(_CHILD), interpreter.word],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
            )
        except OSError as error:
            raise VerificationError(f"{interpreter.name} could not run model '{self._name}': {error}") from error

    def _ended(self, child: subprocess.Popen[bytes]) -> VerificationError:
        """Why there is no answer: what the child said last, and how it ended."""
        status = child.wait()
        assert self._said is not None, "the child was started with it"
        self._said.seek(0)
        lines = [line for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        self.close()
        why = lines[-1][:_ERROR_BYTES] if lines else "it said nothing"
        how = f"signal {-status}" if status < 0 else f"status {status}"
        kind = LitertAbort if status < 0 else VerificationError
        return kind(f"{self._interpreter.name} stopped with {how} on model '{self._name}': {why}")
