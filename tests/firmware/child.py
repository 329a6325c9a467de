"""The process in which a firmware runs: the driver's payloads are executed by the simulator. Prints one JSON object."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


def aligned(data: bytes, to: int = 256) -> tuple[object, int]:
    """A buffer that holds `data` at an aligned address, and the address; a line's rest behind it is the buffer's."""
    buffer = ctypes.create_string_buffer(len(data) + 2 * to)
    address = -(-ctypes.addressof(buffer) // to) * to
    ctypes.memmove(address, data, len(data))
    return buffer, address


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    library = ctypes.CDLL(job["library"])
    keep = []
    if job["simulator"]:
        npu = ctypes.CDLL(job["simulator"])
        npu.ethosu_reserve_driver.restype = ctypes.c_void_p
        simulated = ctypes.c_void_p(npu.ethosu_reserve_driver())
        npu.ethoscade_sim_last_error.restype = ctypes.c_char_p

        def execute(payload: int, size: int, bases: int, sizes: int, count: int) -> int:
            arguments = [ctypes.c_void_p(payload), size, ctypes.c_void_p(bases), ctypes.c_void_p(sizes), count]
            status = npu.ethosu_invoke_v3(simulated, *arguments, None)
            if status:
                print(npu.ethoscade_sim_last_error().decode(), file=sys.stderr)
            return int(status)

        keep.append(EXECUTE(execute))
        library.standin_user_arg.restype = ctypes.c_size_t
        library.standin_complaint.restype = ctypes.c_char_p
        device = map(ctypes.c_uint32, job["device"])
        library.standin_set_up(keep[0], *device, ctypes.c_size_t(job["fast_memory"]), job["is_there"], job["fault"])
    weights, at = aligned(bytes.fromhex(job["weights"]))
    library.probe_status.restype = library.probe_call.restype = ctypes.c_char_p
    library.probe_poison()
    polls = ctypes.c_int32(0)
    statuses, outputs = [], []
    for step in job["inputs"]:
        given = [aligned(bytes.fromhex(data)) for data in step]
        made = [ctypes.create_string_buffer(size) for size in job["outputs"]]
        places = [place + job["input_shift"] for _, place in given], list(map(ctypes.addressof, made))
        ends = [(ctypes.c_void_p * len(group))(*group) for group in places]
        polls.value = 0
        statuses.append(
            library.probe_run(*ends, ctypes.c_void_p(at), job["shift"], job["shortage"], ctypes.byref(polls))
        )
        outputs.append([bytes(buffer.raw).hex() for buffer in made])
    count = ctypes.c_int32.in_dll(library, "probe_call_count").value
    noticed = (ctypes.c_int32 * 4096).in_dll(library, "probe_calls")
    has_npu = bool(job["simulator"])
    report = {
        "statuses": statuses,
        "outputs": outputs,
        "intact": bool(library.probe_intact()),
        "complaint": library.standin_complaint().decode() if has_npu else "",
        "user_arg": library.standin_user_arg() if has_npu else 0,
        **{
            what: [getattr(library, f"standin_{what}")(region) for region in range(job["regions"])] if has_npu else []
            for what in ("told", "flushed", "invalidated")
        },
        "driver_result": ctypes.c_int32.in_dll(library, "probe_driver_result").value,
        "token": ctypes.c_int.in_dll(library, "probe_token").value,
        "polls": polls.value,
        "calls": list(noticed[:count]),
        "names": [library.probe_status(n).decode() for n in (1, *range(0, -10, -1))]
        + [library.probe_call(n).decode() for n in range(job["calls"] + 1)],
        "is_reserved": bool(library.standin_is_reserved()) if has_npu else False,
    }
    print(json.dumps(report))
    del weights


main()
