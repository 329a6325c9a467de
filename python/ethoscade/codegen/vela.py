"""Arm's Vela as a library: weight compression.

Owns every use of `ethosu.vela`; nothing else imports it. It is imported on first use, as that costs half a second. Of
Vela the documented API is called, by any number of threads any number of times.
"""

from __future__ import annotations

import threading
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..target import Accelerator

_API_MAJOR = 1

_PIECE_WEIGHTS = 1 << 20
"""Weights that are encoded in one call at most, unless one block of output channels has more.

A call holds the interpreter's lock, a sixth of a second for so many, and takes about a hundred bytes for each.
"""

_importing = threading.Lock()


@cache
def _api() -> ModuleType:
    # Vela's modules import each other in circles and from inside functions: two threads might see halves.
    with _importing:
        from ethosu.vela import api, weight_compressor  # noqa: F401

    version = api.npu_get_api_version() >> 16
    if version != _API_MAJOR:
        raise CodegenError(f"ethos-u-vela has backend API {version}; version {_API_MAJOR} is needed")
    return api  # type: ignore[no-any-return]


@cache
def _accelerator(name: str) -> Any:
    wanted = name.replace("ethos-u", "Ethos_U").replace("-", "_")
    found = getattr(_api().NpuAccelerator, wanted, None)
    if found is None:
        raise CodegenError(f"ethos-u-vela knows no accelerator '{name}'")
    return found


def encode_weights(
    accelerator: Accelerator,
    ohwi: npt.NDArray[np.integer],
    zero_point: int,
    dilation: tuple[int, int],
    block_depth: int,
    depthwise: bool,
    part_kernel: bool,
    ifm_bits: int = 8,
) -> bytes:
    """The compressed stream of a volume (outputs, height, width, inputs) of weights -255..255.

    `ifm_bits`, 8 or 16, are those of the feature map that they weigh.

    The weights are `ohwi`, in any order in memory, less `zero_point`. `dilation` is (height, width). A depthwise volume
    has one input channel. The length is a multiple of 16.

    Blocks of output channels come one after the other in a stream, and behind the marker at the end of a piece decoders
    go on at the next byte: so a large volume is encoded in pieces of whole blocks.
    """
    api = _api()
    order = api.NpuBlockTraversal.PART_KERNEL_FIRST if part_kernel else api.NpuBlockTraversal.DEPTH_FIRST
    npu, across = _accelerator(accelerator.name), (dilation[1], dilation[0])
    blocks = max(_PIECE_WEIGHTS // (block_depth * max(ohwi[0].size, 1)), 1)
    stream = bytearray()
    for first in range(0, len(ohwi), blocks * block_depth):
        piece = ohwi[first : first + blocks * block_depth].astype(np.int16, order="C") - np.int16(zero_point)
        stream += api.npu_encode_weights(npu, piece, across, ifm_bits, block_depth, depthwise, order)
    return bytes(stream)
