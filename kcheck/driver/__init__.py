"""The CUDA driver API over :mod:`kcheck.cpu`: what makes unmodified numba-cuda run with no GPU.

The seam is the C ABI of ``libcuda.so.1``: a stub shared object (:mod:`~kcheck.driver.elf`) jumps into ctypes
callbacks, one module per family of calls; numba-cuda, cuda.bindings and cuda.core stay as they are.
"""
