"""What the opcodes of PTX have in common, as far as analyses ask."""

from __future__ import annotations

BARRIERS = frozenset({"bar", "barrier"})
"""Threads of a block or of a warp wait for each other there, or announce that they arrived."""

CARRY_READERS = frozenset({"addc", "subc", "madc"})
"""They read the carry flag."""

COLLECTIVE = frozenset({"shfl", "vote", "match", "activemask", "redux", "elect", "mma", "ldmatrix", "movmatrix"})
"""The lanes of a warp work together there, whatever the modifiers."""

EFFECTS = frozenset({"st", "atom", "red", "trap"})
"""They change more than registers."""

HINTS = frozenset({"membar", "fence", "nanosleep", "prefetch", "prefetchu", "pmevent", "discard"})
HINTS |= {"applypriority", "griddepcontrol"}
"""They order memory accesses, wait, or say what to expect, and compute nothing."""

PURE = frozenset({"mov", "cvta", "cvt", "selp", "setp", "add", "sub", "mul", "mad", "neg", "abs", "min", "max"})
PURE |= {"and", "or", "xor", "not", "shl", "shr"}
"""One result, which depends on the operands only and is the same in each lane that has the same operands."""

RETURNS = frozenset({"ret", "exit", "trap"})
"""The thread does not go on behind them."""

WARP_RESULTS = frozenset({"vote", "redux", "match", "activemask", "elect"})
"""Their result comes from all lanes of the warp, so it may differ between warps."""
