"""TFLite bytes to `ir.Graph`: every operator and every quantisation parameter, nothing guessed.

Owns the file format, its checks and the resolution of its conventions (padding modes, masks, negative axes).
Does not decide where an operator runs and does not change the network.
"""

from ..ir import ETHOS_U
from .reader import read_tflite, tensor_counts

__all__ = ["ETHOS_U", "read_tflite", "tensor_counts"]
