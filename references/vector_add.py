"""The reference of the sum of two vectors."""


def vector_add(x, y):
    """x + y, element by element. x, y: [N]; returns the same shape."""
    return x + y
