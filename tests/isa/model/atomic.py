"""``atom`` and ``red``. Source: PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red"."""

from __future__ import annotations

from tests.isa.model.answers import Answer
from tests.isa.model.floating import Context, binary
from tests.isa.model.form import Reply
from tests.isa.model.formats import FORMATS, signed

OPERATIONS: dict[str, tuple[str, ...]] = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
}
"""Every operation with its types."""


def _add_floats(kind: str, space: str, old: int, x: int) -> int | Answer:
    """To nearest. f32 in global memory flushes subnormals; all else keeps them."""
    return binary(Context(FORMATS[kind], "rn", kind == "f32" and space == "global"), "add", old, x)


def updated(operation: str, kind: str, space: str, old: int, x: int, y: int = 0) -> Reply:
    """What the memory holds after ``operation`` on ``old`` with one or two operands."""
    width = 32 if kind.endswith("x2") else FORMATS[kind].bits if kind in FORMATS else int(kind[1:])
    mask = (1 << width) - 1
    match operation:
        case "and":
            return old & x
        case "or":
            return old | x
        case "xor":
            return old ^ x
        case "exch":
            return x
        case "cas":
            return y if old == x else old
        case "inc":
            return 0 if old >= x else old + 1
        case "dec":
            return x if old == 0 or old > x else old - 1
        case "min" | "max":
            pick = min if operation == "min" else max
            if kind[0] == "s":
                return pick(signed(old, width), signed(x, width)) & mask
            return pick(old, x)
        case "add" if kind in FORMATS:
            return _add_floats(kind, space, old, x)
        case "add":
            return (old + x) & mask
    raise ValueError(operation)
