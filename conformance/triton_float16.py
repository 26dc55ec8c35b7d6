"""How far sums in float16 are from what Triton's test_simple_matmul expects, without kcheck: a model in NumPy.

    python conformance/triton_float16.py

Takes the inputs of ``test_simple_matmul[...-float16-float16]`` from PyTorch, adds products up in float16
with a rounding after every 4, 8 or 16 of them, and prints the elements that the test would not accept.
"""

from __future__ import annotations

import numpy as np
import torch

M, N, K = 1024, 512, 256
ALLOWED = 0.06  # atol and rtol of the test


def main() -> None:
    """Print a line for each length of a block."""
    torch.manual_seed(42)
    a = torch.randn(M, K, dtype=torch.float16)
    b = torch.randn(K, N, dtype=torch.float16)
    expected = torch.matmul(a, b).float().numpy()
    left, right = a.double().numpy(), b.double().numpy()
    for block in (4, 8, 16):
        total = np.zeros((M, N), np.float16)
        for k in range(0, K, block):
            total = (total + left[:, k : k + block] @ right[k : k + block]).astype(np.float16)
        off = np.abs(total - expected)
        wrong = np.argwhere(off > ALLOWED + ALLOWED * np.abs(total))
        told = ", ".join(f"[{m}, {n}] by {off[m, n]:.3f}" for m, n in wrong) or "none"
        print(f"rounded after {block} products, beyond what the test allows: {told}")


if __name__ == "__main__":
    main()
