"""The reference of the transpose."""


def transpose(x):
    """x with its axes swapped. x: [M, N]; returns [N, M]."""
    return x.T
