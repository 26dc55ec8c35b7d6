"""The reference of the 2-D convolution."""

import numpy as np


def conv2d(x, w, stride, dilation, pad_y, pad_x):
    """Sums of products of each window of x, zero-padded on all sides, with each filter.

    x: [B, C, H, W], w: [F, C, R, S]; returns [B, F, OH, OW] with
    OH = (H + 2 * pad_y - dilation * (R - 1) - 1) // stride + 1, and OW likewise.
    """
    padded = np.pad(x, ((0, 0), (0, 0), (pad_y, pad_y), (pad_x, pad_x)))
    R, S = w.shape[2:]
    down = padded.shape[2] - dilation * (R - 1)  # window positions before striding
    across = padded.shape[3] - dilation * (S - 1)
    corners = [(r * dilation, s * dilation) for r in range(R) for s in range(S)]
    windows = np.stack(
        [padded[:, :, top : top + down : stride, left : left + across : stride] for top, left in corners], axis=-1
    )  # [B, C, OH, OW, R * S]
    return np.einsum("bcijk,fck->bfij", windows, w.reshape(w.shape[0], w.shape[1], R * S))
