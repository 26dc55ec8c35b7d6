"""The reference of the mean of a vector."""


def mean(x):
    """The mean of x: [N], N > 0; returns [1]."""
    return x.sum(keepdims=True) / x.size
