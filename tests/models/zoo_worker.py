"""Runs Vela and reference interpreters on many files, each in a process of its own that may abort: jobs.json.

A job is {"do": "vela", "model", "folder", "options"} or {"do": "litert" or "tflm", "model", "inputs", "outputs"}.
Importing once and forking for each job saves most of the time. A failed job leaves no output.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

import numpy as np

TIMEOUT_SECONDS = 120


def vela(job: dict) -> None:
    from ethosu.vela import vela as compiler

    compiler.main([job["model"], "--output-dir", job["folder"], *job["options"]])


def reference(job: dict) -> None:
    import reference_worker

    with open(job["model"], "rb") as file:
        model = file.read()
    archive = np.load(job["inputs"])
    inputs = [archive[f"arr_{i}"] for i in range(len(archive.files))]
    np.savez(
        job["outputs"], *{"litert": reference_worker.litert, "tflm": reference_worker.tflm}[job["do"]](model, inputs)
    )


def main() -> None:
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    if any(job["do"] == "vela" for job in jobs):
        import ethosu.vela.vela  # noqa: F401
    if any(job["do"] == "litert" for job in jobs):
        import ai_edge_litert.interpreter  # noqa: F401
    for job in jobs:
        child = os.fork()
        if child == 0:
            code = 1
            signal.alarm(TIMEOUT_SECONDS)
            with contextlib.suppress(BaseException), open(os.devnull, "w") as quiet:
                os.dup2(quiet.fileno(), 1)
                os.dup2(quiet.fileno(), 2)
                (vela if job["do"] == "vela" else reference)(job)
                code = 0
            os._exit(code)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
