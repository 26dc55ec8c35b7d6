"""The project that ``kcheck init`` creates: a kernel that passes, and a twin with one bug that is caught."""

from __future__ import annotations

_KERNELS = '''"""Sums of the rows of a matrix: one block per row, a tree reduction in shared memory."""

from numba import cuda, float32

BLOCK = 128  # threads per block, a power of two; the launch in the spec uses the same


@cuda.jit
def row_sum(x, y):
    """y[i] = sum(x[i, :])"""
    partial = cuda.shared.array(BLOCK, float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    total = float32(0)
    for column in range(t, x.shape[1], BLOCK):
        total += x[row, column]
    partial[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            partial[t] += partial[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        y[row] = partial[0]


@cuda.jit
def row_sum_no_barrier(x, y):
    """The same without the barrier in the loop: a bug, although a GPU often gives the right result."""
    partial = cuda.shared.array(BLOCK, float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    total = float32(0)
    for column in range(t, x.shape[1], BLOCK):
        total += x[row, column]
    partial[t] = total
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            partial[t] += partial[t + width]
        width //= 2
    if t == 0:
        y[row] = partial[0]
'''
_REFERENCE = '''"""What the kernels must compute, in NumPy. kcheck calls it with float64 arrays."""


def row_sum(x):
    return x.sum(axis=1)
'''
_SPEC = """kcheck: 1
op: row_sum
kernel: kernels/row_sum.py:row_sum            # file:name of a @cuda.jit kernel
reference: references/row_sum.py:row_sum      # file:name of a NumPy function
dims: {M: 1..32, N: 1..1000}                  # kcheck tries sizes around every tile boundary
inputs: {x: [M, N]}
outputs: {y: [M]}
launch: {args: [x, y], grid: [M], block: [128]}
cases: {count: 30}
"""
_BUGGY = """# The same op with a bug, to see what kcheck reports. `kcheck run` does not read this folder.
kcheck: 1
extends: specs/row_sum.yaml
op: row_sum_no_barrier
kernel: kernels/row_sum.py:row_sum_no_barrier
# It fails on purpose: delete this file before you commit with kcheck's pre-commit hook.
"""
_SETTINGS = """# kcheck settings for this project; `kcheck config` shows them. All are optional:
# cases: 100
# timeout: 20
# sanitize: {overflow: error}
"""

SPEC = "specs/row_sum.yaml"
BUGGY = "specs/buggy/row_sum_no_barrier.yaml"
FILES = {
    "kernels/row_sum.py": _KERNELS,
    "references/row_sum.py": _REFERENCE,
    SPEC: _SPEC,
    BUGGY: _BUGGY,
}
"""The text of each file, by its path relative to the project root."""
SETTINGS = ("kcheck.yaml", _SETTINGS)
