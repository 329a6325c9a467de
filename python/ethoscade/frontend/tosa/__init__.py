"""TOSA 1.0 files to `ir.Graph`: each operator one `ir.Operator`, in the file's order.

Owns the file's tables, field by field, the checks of the specification's `ERROR_IF`s, and which operands are
parameters.
"""

from .reader import read_tosa

__all__ = ["read_tosa"]
