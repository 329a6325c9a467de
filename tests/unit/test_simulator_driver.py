"""The C interface of the simulated driver, as a C program sees it: through the shared library and the header."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest
from ethoscade import simulator
from streams import copy_payload

INCLUDE, LIBRARY = simulator.driver_interface()


def aligned(data: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """A buffer and a 16-byte aligned address in it where `data` is."""
    buffer = ctypes.create_string_buffer(len(data) + 16)
    address = (ctypes.addressof(buffer) + 15) // 16 * 16
    ctypes.memmove(address, data, len(data))
    return buffer, address


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    library.ethosu_reserve_driver.restype = ctypes.c_void_p
    library.ethosu_release_driver.argtypes = [ctypes.c_void_p]
    library.ethosu_wait.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    invoke = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    library.ethosu_invoke_v3.argtypes = library.ethosu_invoke_async.argtypes = [*invoke, ctypes.c_void_p]
    library.ethosu_init.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32]
    library.ethosu_deinit.argtypes = [ctypes.c_void_p]
    library.ethoscade_sim_last_error.restype = ctypes.c_char_p
    library.ethoscade_sim_touched_end.restype = ctypes.c_size_t
    return library


def test_a_registered_device_runs_a_payload(library):
    device = (ctypes.c_uint64 * 8)()
    assert library.ethosu_init(ctypes.addressof(device), None, None, 0, 1, 1) == 0
    driver = library.ethosu_reserve_driver()
    assert driver == ctypes.addressof(device)
    payload = copy_payload()
    keep = [aligned(payload), aligned(bytes(range(16))), aligned(bytes(48))]
    bases = (ctypes.c_uint64 * 2)(keep[1][1], keep[2][1])
    sizes = (ctypes.c_size_t * 2)(16, 48)

    def invoke(function, cut=0, count=2):
        size = len(payload) - cut
        return function(driver, keep[0][1], size, ctypes.addressof(bases), ctypes.addressof(sizes), count, None)

    assert invoke(library.ethosu_invoke_v3) == 0, library.ethoscade_sim_last_error()
    assert ctypes.string_at(keep[2][1] + 16, 16) == bytes(range(16))
    assert [library.ethoscade_sim_touched_end(region) for region in (0, 1, 2, -1)] == [16, 32, 0, 0]

    assert library.ethosu_wait(driver, True) == -2
    sizes[1] = 20
    assert invoke(library.ethosu_invoke_async) == 0
    assert invoke(library.ethosu_invoke_async) == -1
    assert b"in progress" in library.ethoscade_sim_last_error()
    assert library.ethosu_wait(driver, True) == -1

    assert invoke(library.ethosu_invoke_v3, cut=2) == -1
    assert b"not a whole number" in library.ethoscade_sim_last_error()
    assert invoke(library.ethosu_invoke_v3, count=9) == -1
    assert b"9 base addresses" in library.ethoscade_sim_last_error()
    assert library.ethosu_invoke_v3(driver, None, 4, None, None, 0, None) == -1
    library.ethosu_release_driver(driver)
    library.ethosu_deinit(driver)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_compiles(language, tmp_path):
    source = tmp_path / "user.c"
    source.write_text(
        '#include "ethosu_driver.h"\n'
        "static struct ethosu_driver device;\n"
        "int main(void) { return ethosu_init(&device, 0, 0, 0, 1, 1) + ethosu_wait(&device, true); }\n"
    )
    command = ["cc", "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
