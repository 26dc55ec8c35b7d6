"""The reference of the grouped matrix product of tokens and experts."""

import itertools

import numpy as np


def matmul_experts(x, weight, offsets):
    """x[rows] @ weight[e] for each expert, with rows from offsets[e] to offsets[e + 1].

    x: [ROWS, D], weight: [E, D, F], offsets: [E + 1]; returns [ROWS, F].
    """
    made = [x[begin:end] @ w for (begin, end), w in zip(itertools.pairwise(offsets), weight, strict=True)]
    return np.concatenate(made)
