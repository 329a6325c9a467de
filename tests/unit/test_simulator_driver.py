"""The C interface of the simulated driver, as a C program sees it: through the shared library and the header."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from ethoscade.run import simulator
from streams import Stream, copy_payload

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
    library.ethoscade_sim_hazard.restype = library.ethoscade_sim_warning.restype = ctypes.c_char_p
    library.ethoscade_sim_touched_end.restype = library.ethoscade_sim_hazards.restype = ctypes.c_size_t
    return library


def test_a_registered_device_runs_a_payload(library):
    device = (ctypes.c_uint64 * 8)()
    assert library.ethosu_init(ctypes.addressof(device), None, None, 0, 1, 1) == 0
    # What else uses the driver in this process may have left a device, which is handed out first.
    others = []
    while (driver := library.ethosu_reserve_driver()) != ctypes.addressof(device):
        others.append(driver)
    for other in others:
        library.ethosu_release_driver(other)
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


def test_each_thread_is_told_of_its_own_last_run(library):
    """A pool that does not wait for the copy that it reads: who ran it is told in a sentence, and nobody else."""
    hasty = Stream().dma(source=(0, 0), destination=(1, 0), length=16).max_pool(16).payload()
    constants, arena = aligned(bytes(range(16))), aligned(bytes(64))

    def run(payload):
        driver = library.ethosu_reserve_driver()
        keep = aligned(payload)
        bases, sizes = (ctypes.c_uint64 * 2)(constants[1], arena[1]), (ctypes.c_size_t * 2)(16, 64)
        pointers = ctypes.addressof(bases), ctypes.addressof(sizes)
        status = library.ethosu_invoke_v3(driver, keep[1], len(payload), *pointers, 2, None)
        library.ethosu_release_driver(driver)
        assert status == 0, library.ethoscade_sim_last_error()
        return library.ethoscade_sim_hazard(0), library.ethoscade_sim_touched_end(1)

    before = library.ethoscade_sim_hazards()
    sentence, touched = run(hasty)
    assert b"reads before they are written by" in sentence and touched == 48
    assert library.ethoscade_sim_hazard(1) is None is library.ethoscade_sim_warning(0)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(library.ethoscade_sim_hazard, 0).result() is None
        assert other.submit(run, copy_payload()).result() == (None, 32)
    assert (library.ethoscade_sim_hazard(0), library.ethoscade_sim_touched_end(1)) == (sentence, touched)
    assert library.ethoscade_sim_hazards() == before + 1
    assert run(copy_payload()) == (None, 32)
    with pytest.raises(AssertionError, match="region 1, which has 64 bytes"):
        run(Stream().dma(source=(0, 0), destination=(1, 0), length=16).dma((0, 0), (1, 64), 16).payload())
    assert library.ethoscade_sim_touched_end(1) == 16


# Firmware as it is written for a board: no function of the simulator's own but the device's choice.
FIRMWARE = r"""
#include "ethoscade_npu.h"
#include <stdio.h>
#include <string.h>

static struct ethosu_driver device;
static uint32_t payload[] __attribute__((aligned(16))) = {PAYLOAD};
static uint8_t constants[16] __attribute__((aligned(16))) = "sixteen bytes..";
static uint8_t arena[48] __attribute__((aligned(16)));

int main(void)
{
    uint64_t bases[2];
    size_t sizes[2] = {sizeof(constants), sizeof(arena)};
    struct ethosu_driver_version version = {9, 9, 9};
    struct ethosu_hw_info hw;
    struct ethosu_driver *drv;
    bases[0] = (uint64_t)(uintptr_t)constants;
    bases[1] = (uint64_t)(uintptr_t)arena;
    if (ethosu_init(&device, 0, 0, 0, 1, 1)) return 1;
    ethosu_get_driver_version(&version);
    if (version.minor != ETHOSU_DRIVER_VERSION_MINOR) return 2;
    if (ethoscade_sim_set_accelerator("ethos-u65-512")) return 3;
    ethosu_get_hw_info(&device, &hw);
    if (hw.cfg.macs_per_cc != 9 || hw.version.product_major != 6 || hw.version.arch_major_rev != 1) return 4;
    if (ethoscade_sim_set_accelerator(0)) return 5;
    drv = ethosu_reserve_driver();
    if (drv != &device || ethosu_request_power(drv)) return 6;
    if (ethosu_invoke(drv, payload, (int)sizeof(payload), bases, sizes, 2)) return 7;
    if (memcmp(arena + 16, constants, 16)) return 8;
    memset(arena, 0, sizeof(arena));
    if (ethosu_invoke_async(drv, payload, (int)sizeof(payload), bases, sizes, 2, &device)) return 9;
    if (ethosu_wait(drv, false)) return 10;
    if (memcmp(arena + 16, constants, 16)) return 11;
    if (ethosu_invoke_async(drv, payload, (int)sizeof(payload), bases, sizes, 2, 0)) return 12;
    if (ethosu_soft_reset(drv) || ethosu_wait(drv, true) != -2) return 13;
    if (ethosu_soft_reset(0) != -1) return 14;
    ethosu_irq_handler(drv);
    ethosu_release_power(drv);
    ethosu_release_driver(drv);
    if (ethosu_invoke_v2(payload, (int)sizeof(payload), bases, sizes, 2)) return 15;
    ethosu_deinit(&device);
    puts("fine");
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("language", ["c", "c++"])
def test_firmware_builds_against_the_header_and_runs(language, tmp_path):
    """Every function of the driver, called from C and C++ that knows the header only."""
    payload = copy_payload()
    words = ", ".join(f"0x{word:08x}u" for (word,) in struct.iter_unpack("<I", payload))
    source, program = tmp_path / "firmware.c", tmp_path / "firmware.so"
    source.write_text(FIRMWARE.replace("PAYLOAD", words).replace("int main(void)", "EXTERN int firmware(void)"))
    extern = 'extern "C"' if language == "c++" else ""
    flags = ["-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-DEXTERN={extern}", f"-I{INCLUDE}"]
    done = subprocess.run(
        ["cc", "-x", language, *flags, str(source), "-o", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    run = (
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)\n"
        "sys.exit(ctypes.CDLL(sys.argv[2]).firmware())\n"
    )
    done = subprocess.run([sys.executable, "-c", run, str(LIBRARY), str(program)], capture_output=True, text=True)
    assert done.returncode == 0, f"step {done.returncode}: {done.stderr}"


def test_the_headers_declare_what_is_exported():
    """The driver's alone what the hardware's has, so that firmware which needs more says so."""
    exported = ctypes.CDLL(str(LIBRARY))
    for name, prefix, count in (("ethosu_driver.h", "ethosu_", 13), ("ethoscade_npu.h", "ethoscade_sim_", 7)):
        declared = declared_in(name)
        assert len(declared) == count and all(function.startswith(prefix) for function in declared)
        assert [function for function in sorted(declared) if not hasattr(exported, function)] == []


def declared_in(header: str) -> set[str]:
    """Functions that a header declares; those that it defines left out."""
    code = re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(), flags=re.DOTALL)
    return set(re.findall(r"^\w[\w ]*[ *](eth\w+)\([^{;]*;", code, re.MULTILINE))
