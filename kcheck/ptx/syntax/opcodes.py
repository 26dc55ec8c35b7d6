"""Sets of PTX opcodes that share a property, for the analyses."""

from __future__ import annotations

ATOMICS = frozenset({"atom", "red"})
"""They read, modify and write memory atomically."""

PLAIN_ACCESSES = frozenset({"ld", "st"})
ACCESSES = PLAIN_ACCESSES | ATOMICS
"""They access memory at the address of each lane."""

LOADS = frozenset({"ld", "ldu"})

MEMORY = ACCESSES | {"ldu", "ldmatrix"}
"""They access memory through an address operand, whether per lane or per warp."""

BARRIERS = frozenset({"bar", "barrier"})
"""Threads of a block or of a warp wait for each other there, or announce that they arrived."""

CARRY_READERS = frozenset({"addc", "subc", "madc"})
"""They read the carry flag."""

COLLECTIVE = frozenset({"shfl", "vote", "match", "activemask", "redux", "elect", "mma", "ldmatrix", "movmatrix"})
"""The lanes of a warp cooperate, whatever the modifiers."""

MOVES = frozenset({"mov", "cvta"})
COPIES = MOVES | {"cvt"}
"""Their result is their operand, in a different register, state space or type."""

SUMS = frozenset({"add", "sub"})
OFFSETS = frozenset({"add", "or"})
"""They add an offset to an address: LLVM sets bits that are clear with ``or``."""

PRODUCTS = frozenset({"mul", "mad"})

EFFECTS = ATOMICS | {"st", "trap"}
"""They change more than registers."""

FENCES = frozenset({"membar", "fence"})
"""They order memory accesses."""

STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
"""Modifiers, not opcodes: of accesses that other threads may synchronize with."""

HINTS = FENCES | {"nanosleep", "prefetch", "prefetchu", "pmevent", "discard", "applypriority", "griddepcontrol"}
"""They order memory accesses, wait, or give hints, and compute nothing."""

PURE = COPIES | SUMS | PRODUCTS | {"selp", "setp", "neg", "abs", "min", "max"}
PURE |= {"and", "or", "xor", "not", "shl", "shr"}
"""They have one result, which depends on nothing but the operands."""

EXITS = frozenset({"ret", "exit"})
RETURNS = EXITS | {"trap"}
"""The thread does not continue after them."""

WARP_RESULTS = frozenset({"vote", "redux", "match", "activemask", "elect"})
"""Their result comes from all lanes of the warp, so it may differ between warps."""
