"""Arrays of other frameworks as NumPy arrays: torch, JAX, TensorFlow, CuPy, numba.cuda, and by DLPack."""

from kcheck.frameworks.arrays import NotAnArray, as_numpy

__all__ = ["NotAnArray", "as_numpy"]
