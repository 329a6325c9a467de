"""Bytes of TensorFlow Lite and TOSA files to `ir.Graph`: every operator and every parameter, nothing guessed.

Owns the file formats, their checks and the resolution of their conventions (padding modes, masks, negative axes).
Does not decide where an operator runs and does not change the network.
"""

from ..ir import ETHOS_U
from .models import read_model
from .reader import read_tflite, tensor_counts

__all__ = ["ETHOS_U", "read_model", "read_tflite", "tensor_counts"]
