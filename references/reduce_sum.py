"""The reference of the sum of a vector."""


def reduce_sum(x):
    """The sum of x: [N]; returns [1], zero where N is 0."""
    return x.sum(keepdims=True)
