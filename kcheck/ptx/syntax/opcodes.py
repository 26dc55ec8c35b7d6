"""What the opcodes of PTX have in common, as far as analyses ask."""

from __future__ import annotations

ATOMICS = frozenset({"atom", "red"})
"""They read, change and write memory as one."""

PLAIN_ACCESSES = frozenset({"ld", "st"})
ACCESSES = PLAIN_ACCESSES | ATOMICS
"""They access memory at the address of each lane."""

LOADS = frozenset({"ld", "ldu"})

MEMORY = ACCESSES | {"ldu", "ldmatrix"}
"""They access memory in any way that an address operand shows."""

BARRIERS = frozenset({"bar", "barrier"})
"""Threads of a block or of a warp wait for each other there, or announce that they arrived."""

CARRY_READERS = frozenset({"addc", "subc", "madc"})
"""They read the carry flag."""

COLLECTIVE = frozenset({"shfl", "vote", "match", "activemask", "redux", "elect", "mma", "ldmatrix", "movmatrix"})
"""The lanes of a warp work together there, whatever the modifiers."""

MOVES = frozenset({"mov", "cvta"})
COPIES = MOVES | {"cvt"}
"""Their result is the operand, in another register, space or type."""

SUMS = frozenset({"add", "sub"})
OFFSETS = frozenset({"add", "or"})
"""They add an offset to an address: LLVM sets bits that are clear with ``or``."""

PRODUCTS = frozenset({"mul", "mad"})

EFFECTS = ATOMICS | {"st", "trap"}
"""They change more than registers."""

FENCES = frozenset({"membar", "fence"})
"""They order memory accesses."""

HINTS = FENCES | {"nanosleep", "prefetch", "prefetchu", "pmevent", "discard", "applypriority", "griddepcontrol"}
"""They order memory accesses, wait, or say what to expect, and compute nothing."""

PURE = COPIES | SUMS | PRODUCTS | {"selp", "setp", "neg", "abs", "min", "max"}
PURE |= {"and", "or", "xor", "not", "shl", "shr"}
"""One result, which depends on the operands only and is the same in each lane that has the same operands."""

EXITS = frozenset({"ret", "exit"})
RETURNS = EXITS | {"trap"}
"""The thread does not go on behind them."""

WARP_RESULTS = frozenset({"vote", "redux", "match", "activemask", "elect"})
"""Their result comes from all lanes of the warp, so it may differ between warps."""
