"""Named, independent 64-bit seeds, derived from one seed."""

from __future__ import annotations

from hashlib import blake2b

MASK64 = 2**64 - 1


def derive(seed: int, domain: str) -> int:
    """The seed of the stream named ``domain`` under ``seed`` (docs/spec.md, "Seeds").

    BLAKE2b with an 8-byte digest over the seed as 8 little-endian bytes and the domain in UTF-8, read as a
    little-endian integer.

    Args:
        seed: in [0, 2**64).
        domain: any text, such as ``iter_3`` or ``data/x``.

    Raises:
        OverflowError: seed is negative or needs more than 64 bits.
    """
    digest = blake2b(seed.to_bytes(8, "little") + domain.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def splitmix64(seed: int) -> int:
    """The first output of SplitMix64 started at ``seed`` (Steele, Lea, Flood 2014; constants of Vigna's mix)."""
    z = (seed + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)
