"""The CUDA driver API, implemented on :mod:`kcheck.cpu`, so that numba-cuda programs run without a GPU.

The boundary is the C ABI of ``libcuda.so.1``: a stub shared object (:mod:`~kcheck.driver.elf`) jumps into ctypes
callbacks, one module per family of calls. The installed numba-cuda, cuda.bindings and cuda.core are unchanged;
:mod:`~kcheck.driver.link` patches numba-cuda in memory.
"""
