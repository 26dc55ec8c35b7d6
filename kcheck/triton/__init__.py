"""Triton's kernels on the cpu device: Triton compiles them to PTX as for an NVIDIA GPU, and asks a driver object
of ours to run it.
"""
