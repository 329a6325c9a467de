"""The CPU operators that can be written as C. A new kernel: one Python file, one C file, one entry in `_ALL`."""

from __future__ import annotations

from importlib import resources

from ...errors import UnsupportedOperatorError
from ...ir import Operator
from ...operators import keyed
from .copy import COPY
from .kernel import Call, CKernel, Operands
from .mean import MEAN
from .pad import PAD
from .pool import POOL
from .quantise import DEQUANTISE, QUANTISE
from .resize import RESIZE
from .softmax import SOFTMAX

__all__ = ["KERNELS", "CKernel", "Call", "Operands", "kernel_for", "kernel_text"]

_ALL: tuple[CKernel, ...] = (COPY, DEQUANTISE, MEAN, PAD, POOL, QUANTISE, RESIZE, SOFTMAX)

KERNELS = keyed(*(dict.fromkeys(kernel.kinds, kernel) for kernel in _ALL))
"""The kernel of each kind that has one."""


def kernel_for(operator: Operator) -> CKernel:
    """The kernel of an operator. Raises `UnsupportedOperatorError` naming the operator and the kernels there are."""
    kernel = KERNELS.get(operator.kind)
    if kernel is None:
        constraint = f"C kernels exist for {', '.join(KERNELS)}"
        raise UnsupportedOperatorError(
            f"operator '{operator.name}' ({operator.kind}) stays on the CPU and cannot be written as C: {constraint}",
            operator=operator.name,
            constraint=constraint,
        )
    return kernel


def kernel_text(name: str) -> str:
    """The text of one of the package's C files."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
