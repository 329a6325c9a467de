"""TFLite's names and numbers for what the builder builds: activations, operator versions, options of windows."""

from __future__ import annotations

import tflite

from ..ir import Activation, Window

CODE_OF_ACTIVATION = {
    Activation.NONE: tflite.ActivationFunctionType.NONE,
    Activation.RELU: tflite.ActivationFunctionType.RELU,
    Activation.RELU_N1_TO_1: tflite.ActivationFunctionType.RELU_N1_TO_1,
    Activation.RELU6: tflite.ActivationFunctionType.RELU6,
}
SIGNED_VERSIONS = {
    "CONCATENATION": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "ADD": 2,
    "AVERAGE_POOL_2D": 2,
    "MAX_POOL_2D": 2,
    "MEAN": 2,
    "PAD": 2,
    "SOFTMAX": 2,
    "RELU": 2,
    "RELU6": 2,
    "QUANTIZE": 2,
    "SPLIT": 2,
    "SPLIT_V": 2,
}
"""Operator versions from which a runtime may expect int8; uint8 operators are all of version 1."""


def window_fields(window: Window, padding: str, activation: Activation, *, dilated: bool) -> dict[str, int]:
    """Options that all windowed operators share; `dilated` ones have dilation factors too."""
    fields = {
        "Padding": getattr(tflite.Padding, padding),
        "StrideW": window.stride_w,
        "StrideH": window.stride_h,
        "FusedActivationFunction": CODE_OF_ACTIVATION[activation],
    }
    if dilated:
        fields |= {"DilationWFactor": window.dilation_w, "DilationHFactor": window.dilation_h}
    return fields
