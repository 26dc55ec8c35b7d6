"""The reference of the matrix product whose K is split."""


def matmul_splitk(a, b):
    """a @ b. a: [M, K], b: [K, N]; returns [M, N], zeros where K is 0."""
    return a @ b
