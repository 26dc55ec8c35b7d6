"""The reference of the grouped matrix product."""

import itertools

import numpy as np


def matmul_grouped(x, dy, offsets):
    """x[rows].T @ dy[rows] for each expert, with rows from offsets[e] to offsets[e + 1].

    x: [ROWS, D], dy: [ROWS, F], offsets: [E + 1]; returns [E, D, F], zeros for an expert without rows.
    """
    return np.stack([x[begin:end].T @ dy[begin:end] for begin, end in itertools.pairwise(offsets)])
