"""The reference of the matrix product."""


def matmul(a, b):
    """a @ b. a: [M, K], b: [K, N]; returns [M, N], zeros where K is 0."""
    return a @ b
