"""Converts arrays between NumPy and torch, JAX or TensorFlow; reads those of CuPy, numba.cuda and DLPack."""

from kcheck.frameworks.arrays import FLUSHING, NotAnArray, as_numpy, may_flush
from kcheck.frameworks.derivatives import derivatives, recorded_derivatives
from kcheck.frameworks.passing import FrameworkMissing, framework_of, passed_array, wants_tensors

__all__ = [
    "FLUSHING",
    "FrameworkMissing",
    "NotAnArray",
    "as_numpy",
    "derivatives",
    "framework_of",
    "may_flush",
    "passed_array",
    "recorded_derivatives",
    "wants_tensors",
]
