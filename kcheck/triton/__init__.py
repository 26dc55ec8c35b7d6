"""Triton's kernels on the cpu device: Triton compiles them to PTX as for an NVIDIA GPU, and asks
kcheck's driver object to run it.
"""
