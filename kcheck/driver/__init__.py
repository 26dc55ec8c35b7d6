"""The CUDA driver API over :mod:`kcheck.cpu`: it runs unmodified numba-cuda without a GPU.

The seam is the C ABI of ``libcuda.so.1``: a stub shared object (:mod:`~kcheck.driver.elf`) jumps into ctypes
callbacks, one module per family of calls; numba-cuda, cuda.bindings and cuda.core are unchanged.
"""
