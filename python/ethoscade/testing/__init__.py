"""TFLite networks made to measure, for tests, examples and benchmarks; needs neither TensorFlow nor a runtime."""

from .builder import ModelBuilder
from .networks import (
    inception_modules,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    residual_network,
    shuffle_units,
    tiny_conv,
)
from .random_networks import random_network
from .recorder import Value

__all__ = [
    "ModelBuilder",
    "Value",
    "inception_modules",
    "inverted_residuals",
    "keyword_spotting",
    "mobilenet_v1",
    "random_network",
    "residual_network",
    "shuffle_units",
    "tiny_conv",
]
