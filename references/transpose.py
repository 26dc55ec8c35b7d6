"""The reference of the transpose."""


def transpose(x):
    """x with its axes exchanged. x: [M, N]; returns [N, M]."""
    return x.T
