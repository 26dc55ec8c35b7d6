"""Arrays of other frameworks, both ways: torch, JAX, TensorFlow, CuPy, numba.cuda, and by DLPack."""

from kcheck.frameworks.arrays import NotAnArray, as_numpy
from kcheck.frameworks.passing import FrameworkMissing, framework_of, passed_array

__all__ = ["FrameworkMissing", "NotAnArray", "as_numpy", "framework_of", "passed_array"]
