"""The process in which a run goes call by call, every entry asked for after each. Prints one JSON object."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

RUNNING = 1
LINE = 32


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    if job["simulator"]:
        ctypes.CDLL(job["simulator"], ctypes.RTLD_GLOBAL)
    library, prefix = ctypes.CDLL(job["library"]), f"tvmgen_{job['module']}_graph_"
    begin, step = (getattr(library, prefix + name) for name in ("begin", "step"))
    tensor, size, name_of = (getattr(library, prefix + name) for name in ("tensor", "size", "name"))
    tensor.restype, name_of.restype = ctypes.c_void_p, ctypes.c_char_p
    run = ctypes.create_string_buffer(4096)
    memory = ctypes.create_string_buffer(job["arena_bytes"] + LINE)
    # Of the struct of pools: the arena, its size, whether there is state.
    begun = -(-ctypes.addressof(memory) // LINE) * LINE
    pools = (ctypes.c_size_t * 3)(begun, job["arena_bytes"], 0)
    report = []
    for given in job["steps"]:
        inputs = [ctypes.create_string_buffer(bytes.fromhex(data), len(data) // 2) for data in given]
        outputs = [ctypes.create_string_buffer(count) for count in job["outputs"]]
        ends = [(ctypes.c_void_p * len(group))(*map(ctypes.addressof, group)) for group in (inputs, outputs)]
        arguments = [run, *ends, *([pools] if job["pools"] else []), *([None] if job["simulator"] else [])]
        status, seen = begin(*arguments), []
        while True:
            live = {}
            for entry in range(job["entries"] + 1):
                at = tensor(run, entry)
                if at is not None:
                    live[entry] = [name_of(entry).decode(), ctypes.string_at(at, size(entry)).hex()]
            seen.append(live)
            if status != RUNNING:
                break
            status = step(run)
        after = [step(run), step(run), tensor(run, job["entries"])]
        report.append({"status": status, "seen": seen, "after": after, "outputs": [o.raw.hex() for o in outputs]})
    print(json.dumps(report))


main()
