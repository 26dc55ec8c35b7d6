"""Cross-entropy of logits and integer labels with a planted bug.

The logit of the label is read even if the label is ignored.
"""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, ignore, loss, V, row_stride, BLOCK: tl.constexpr):
    """loss[i] = log(sum(exp(logits[i, :]))) - logits[i, labels[i]]; 0 where labels[i] == ignore.

    Launch with grid [M]. logits: [M, V] of T, with row_stride elements from row to row and 1 from class to class;
    labels: [M] of int64, in [0, V) or equal to ignore; loss: [M] of float32. A logit may be -inf: a class that is
    ruled out. Computes in float32.
    """
    row = tl.program_id(0)
    logits += row * row_stride
    label = tl.load(labels + row)
    highest = -float("inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        logit = tl.load(logits + column, mask=column < V, other=-float("inf")).to(tl.float32)
        new = tl.maximum(highest, tl.max(logit, axis=0))
        if new > highest:  # so that new is a number: -inf - -inf would be NaN
            total *= tl.exp(highest - new)
            highest = new
        if highest > -float("inf"):
            total += tl.sum(tl.exp(logit - highest), axis=0)
    picked = tl.load(logits + label).to(tl.float32)
    tl.store(loss + row, tl.where(label == ignore, 0.0, tl.log(total) - (picked - highest)))
