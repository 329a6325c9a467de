"""Cortex-M cores by description: what an operator on the CPU costs there, from published figures, as a range.

Owns the descriptions and the classes of operators; docs/cpu-time.md has every source. These are estimates to tell a
millisecond from a microsecond by, never a measurement. Knows nothing of networks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ..errors import ConfigError
from ..util.arguments import number_of, shown
from ..util.records import dataclass

Span = tuple[float, float]
"""The least and the most."""


@dataclass(frozen=True)
class CpuDescription:
    """A core and the kernels that it runs.

    `cycles_per_mac` are the cycles of a multiply-accumulate in a whole network with vectorised kernels (CMSIS-NN or as
    good), `cycles_per_instruction` those of compiled C. `kernels` says which of the two counts for operators that
    multiply: "cmsis-nn" or "plain". `clock_hz` is None where the clock of the NPU's configuration is meant.
    """

    name: str
    cycles_per_mac: Span
    cycles_per_instruction: Span
    source: str
    kernels: str = "cmsis-nn"
    clock_hz: float | None = None

    def cycles(self, kind: str, macs: int, elements: int) -> Span | None:
        """Cycles of an operator of a kind, by its multiply-accumulates or elements; None if unknown."""
        work = MEASURED.get(kind) or INSTRUCTIONS.get(CLASSES.get(kind, ""))
        if work is None:
            return None
        if macs and self.kernels == "cmsis-nn":
            return macs * self.cycles_per_mac[0], macs * self.cycles_per_mac[1]
        amount = macs or elements
        least, most = self.cycles_per_instruction
        return amount * work[0] * least, amount * work[1] * most


INSTRUCTIONS: Mapping[str, Span] = MappingProxyType(
    {
        "convolution": (5.0, 57.0),
        "depthwise": (11.0, 86.0),
        "copy": (0.0, 48.0),
        "arithmetic": (0.2, 130.0),
        "function": (43.0, 430.0),
    }
)
"""Instructions of compiled C for a multiply-accumulate, or for an element, by class of operator: the least and the most
of those kinds of the class that are `MEASURED`. Elements cost the most each where there are few of them."""

MEASURED: Mapping[str, Span] = MappingProxyType(
    {
        "ADD": (36.0, 74.0),
        "AVERAGE_POOL_2D": (2.0, 6.0),
        "CONCATENATION": (0.6, 1.0),
        "CONV_2D": (5.0, 57.0),
        "DEPTHWISE_CONV_2D": (11.0, 86.0),
        "DEQUANTIZE": (8.0, 29.0),
        "EXPAND_DIMS": (0.5, 0.7),
        "FULLY_CONNECTED": (5.0, 9.0),
        "LOGISTIC": (43.0, 44.0),
        "MAX_POOL_2D": (0.2, 30.0),
        "MEAN": (4.0, 13.0),
        "MINIMUM": (7.0, 14.0),
        "MUL": (26.0, 130.0),
        "PAD": (1.0, 48.0),
        "QUANTIZE": (15.0, 47.0),
        "RELU": (10.0, 12.0),
        "RESHAPE": (0.0, 7.0),
        "RESIZE_NEAREST_NEIGHBOR": (0.9, 1.0),
        "SOFTMAX": (184.0, 430.0),
        "STRIDED_SLICE": (0.1, 0.9),
        "TRANSPOSE_CONV": (8.0, 9.0),
        "UNIDIRECTIONAL_SEQUENCE_LSTM": (5.0, 7.0),
    }
)
"""Instructions of ethoscade's own C kernels on QEMU's Cortex-M55 for a multiply-accumulate, or for an element of the
largest tensor, over all operators of the networks that docs/cpu-time.md names: the least and the most."""

_KINDS = {
    "convolution": (
        "CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    ),
    "depthwise": ("DEPTHWISE_CONV_2D",),
    "copy": (
        "CONCATENATION", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK", "PAD", "PADV2", "RESHAPE",
        "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SHAPE", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE",
        "TILE", "TRANSPOSE", "UNPACK", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "CAST",
    ),
    "arithmetic": (
        "ABS", "ADD", "ARG_MAX", "ARG_MIN", "AVERAGE_POOL_2D", "DEQUANTIZE", "DIV", "LEAKY_RELU", "MAXIMUM",
        "MAX_POOL_2D", "MEAN", "MINIMUM", "MUL", "NEG", "PRELU", "QUANTIZE", "REDUCE_MAX", "REDUCE_MIN", "RELU",
        "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RESIZE_BILINEAR", "SQUARED_DIFFERENCE", "SUB", "SUM",
    ),
    "function": (
        "ELU", "EXP", "GELU", "HARD_SWISH", "L2_NORMALIZATION", "LOG", "LOGISTIC", "LOG_SOFTMAX", "RSQRT", "SOFTMAX",
        "SQRT", "TANH",
    ),
}  # fmt: skip

CLASSES: Mapping[str, str] = MappingProxyType({kind: name for name, kinds in _KINDS.items() for kind in kinds})
"""The class of each kind of operator that is counted."""

_MLPERF = "MLPerf Tiny results v1.1 to v1.3, closed division"
CPUS: Mapping[str, CpuDescription] = MappingProxyType(
    {
        cpu.name: cpu
        for cpu in (
            CpuDescription("cortex-m4", (1.4, 4.9), (1.0, 2.0), f"{_MLPERF}: NUCLEO-L4R5ZI at 120 MHz"),
            CpuDescription(
                "cortex-m33", (1.2, 4.0), (0.85, 1.7), f"{_MLPERF}: NUCLEO-U575ZI-Q at 160 MHz, nRF5340 at 128 MHz"
            ),
            CpuDescription("cortex-m7", (0.88, 2.0), (0.7, 1.4), f"{_MLPERF}: NUCLEO-H7A3ZI-Q at 280 MHz"),
            CpuDescription(
                "cortex-m55", (0.32, 2.0), (0.8, 1.6), "no public figure: the Cortex-M85's least to twice its most"
            ),
            CpuDescription("cortex-m85", (0.32, 1.0), (0.55, 1.1), f"{_MLPERF}: EK-RA8D1 at 480 MHz"),
        )
    }
)
"""The cores that there are descriptions of, by name."""

_FORM = re.compile(r"([a-z0-9-]{1,40})(?:/([a-z-]{1,20}))?(?:@([0-9.]{1,20})\s*([kMG]?Hz))?")
_HERTZ = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
_KERNELS = ("cmsis-nn", "plain")


def described(text: str) -> CpuDescription:
    """The core that a text such as "cortex-m55", "cortex-m55@400MHz" or "cortex-m4/plain@64MHz" means.

    Raises `ConfigError` for one that there is no description of, for other kernels, and for a clock of nothing.
    """
    match = _FORM.fullmatch(text.strip())
    parts: tuple[str | None, ...] = match.groups() if match else (None, None, None, None)
    name, kernels, number, unit = parts
    if name is None or name not in CPUS:
        raise ConfigError(
            f"there is no description of the CPU {shown(text)}; write it like cortex-m55 or cortex-m55/plain@400MHz, "
            f"with one of {', '.join(CPUS)}"
        )
    if kernels is not None and kernels not in _KERNELS:
        raise ConfigError(f"the CPU {shown(text)} has kernels {shown(kernels)}; choose {' or '.join(_KERNELS)}")
    found = replace(CPUS[name], kernels=kernels or _KERNELS[0])
    if number is None or unit is None:
        return found
    value = number_of(number)
    clock = None if value is None else value * _HERTZ[unit]
    if clock is None or not 1 <= clock <= 10**12:
        raise ConfigError(f"the CPU {shown(text)} has a clock of {number} {unit}; it must be 1 Hz to 1,000 GHz")
    return replace(found, clock_hz=float(clock))
