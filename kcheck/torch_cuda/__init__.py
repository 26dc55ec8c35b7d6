"""Runs PyTorch programs written for a GPU on host memory: ``device="cuda"`` gives a tensor in host memory that
reports ``cuda:0`` as its device and that kernels may access.
"""
