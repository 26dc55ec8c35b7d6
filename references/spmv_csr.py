"""The reference of the product of a sparse matrix and a vector."""

import numpy as np


def spmv_csr(offsets, columns, values, x):
    """A @ x for A in CSR form.

    offsets: [M + 1], columns: [NNZ], values: [NNZ], x: [N]; returns [M], zeros for rows without entries.
    """
    y = np.zeros(len(offsets) - 1, dtype=x.dtype)
    rows = np.repeat(np.arange(len(y)), np.diff(offsets))
    np.add.at(y, rows, values * x[columns])
    return y
