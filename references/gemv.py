"""The reference of the product of a matrix and a vector."""


def gemv(a, x, y, alpha, beta):
    """alpha * a @ x + beta * y. a: [M, N], x: [N], y: [M]; returns [M]."""
    return alpha * (a @ x) + beta * y
