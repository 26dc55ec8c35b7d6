"""Triton kernels on the cpu device: Triton compiles them to PTX as for an NVIDIA GPU, and kcheck's driver object
runs the PTX.
"""
