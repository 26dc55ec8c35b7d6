"""The reference of the batched matrix product."""


def matmul_batched(a, b, B, M, N, K, lda, ldb, stride_a, stride_b):
    """a[i] @ b[i] for each i. a: [B * stride_a], b: [B * stride_b], flat; returns [B, M, N]."""
    left = a.reshape(B, stride_a)[:, : M * lda].reshape(B, M, lda)[:, :, :K]
    right = b.reshape(B, stride_b)[:, : K * ldb].reshape(B, K, ldb)[:, :, :N]
    return left @ right
