"""PyTorch programs written for a GPU, on host memory: ``device="cuda"`` gives a tensor on the CPU that says it is
on ``cuda:0`` and that kernels may access.
"""
