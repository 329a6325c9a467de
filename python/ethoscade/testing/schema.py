"""The options that all windowed operators share, as the schema names them."""

from __future__ import annotations

import tflite

from ..ir import Activation, Window
from ..ir.operators import CODE_OF_ACTIVATION


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
