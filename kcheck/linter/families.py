"""The kind of work that a PTX instruction does. The families follow the chapters of PTX ISA, "Instruction Set"."""

from __future__ import annotations

from kcheck.ptx.syntax.ast import Call, Instruction, Symbol

_MEMORY = frozenset({"ld", "ldu", "st", "ldmatrix", "stmatrix", "prefetch", "prefetchu", "cp"})
_SPACES = {
    "global": "global memory",
    "shared": "shared memory",
    "local": "local memory",
    "param": "parameter",
    "const": "constant memory",
}
_BY_OPCODE = {
    **dict.fromkeys(("atom", "red"), "atomic"),
    **dict.fromkeys(("shfl", "vote", "match", "activemask", "redux", "elect"), "warp"),
    **dict.fromkeys(("membar", "fence", "mbarrier"), "barrier"),
    **dict.fromkeys(("bra", "brx", "ret", "exit", "trap", "brkpt"), "branch"),
    **dict.fromkeys(("setp", "set", "selp", "slct", "testp"), "compare"),
    **dict.fromkeys(("cvt", "cvta"), "convert"),
    **dict.fromkeys(("mov", "prmt", "isspacep", "mapa", "getctarank"), "move"),
    **dict.fromkeys(("rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), "special function"),
    **dict.fromkeys(("mma", "wmma", "wgmma", "tcgen05"), "tensor"),
}
_FLOATS = {"f16": "float16", "f16x2": "float16", "bf16": "float16", "bf16x2": "float16", "f32": "float32"}
_FLOATS |= {"f32x2": "float32", "tf32": "float32", "f64": "float64"}
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "usb" for bits in (8, 16, 32, 64, 128)) | {"u16x2", "s16x2"}
_DIVIDING = frozenset({"div", "rem", "sqrt", "rcp"})


def family(operation: Instruction | Call) -> str:
    """The name in FAMILIES as which an operation counts. ``rcp`` and ``rsqrt`` of f64 count as float64
    arithmetic."""
    if isinstance(operation, Call):
        return "call"
    opcode, modifiers = operation.opcode, operation.modifiers
    if opcode in _MEMORY:
        return next((_SPACES[part] for m in modifiers if (part := m.split("::")[0]) in _SPACES), "global memory")
    if opcode in ("bar", "barrier"):
        return "warp" if "warp" in modifiers else "barrier"
    if opcode in _BY_OPCODE and not (opcode in ("rcp", "rsqrt") and "f64" in modifiers):
        return _BY_OPCODE[opcode]
    kind = modifiers[-1] if modifiers else ""
    if kind == "pred":
        return "compare"
    return _FLOATS.get(kind) or ("integer" if kind in _INTEGERS else "other")


def computes_in_float64(operation: Instruction | Call) -> bool:
    """Whether it is arithmetic, a comparison or a conversion that involves float64."""
    return isinstance(operation, Instruction) and "f64" in operation.modifiers and operation.opcode not in _MEMORY


def is_fused(operation: Instruction | Call) -> bool:
    """Whether it multiplies and adds floats with one rounding."""
    return isinstance(operation, Instruction) and operation.opcode == "fma"


def is_unfused(operation: Instruction | Call) -> bool:
    """Whether it is a multiplication, addition or subtraction of floats that is not fused."""
    return (
        isinstance(operation, Instruction)
        and operation.opcode in ("mul", "add", "sub")
        and operation.modifiers[-1] in _FLOATS
    )


def divides(operation: Instruction | Call) -> bool:
    """Whether it becomes a sequence of machine instructions: a division, reciprocal, remainder or square root that
    is rounded correctly. Integer division by a literal does not occur: the compiler multiplies instead."""
    return (
        isinstance(operation, Instruction)
        and operation.opcode in _DIVIDING
        and not {"approx", "full"} & set(operation.modifiers)
    )


def prints(operation: Instruction | Call) -> bool:
    """Whether it calls ``vprintf``."""
    return (
        isinstance(operation, Call) and isinstance(operation.target, Symbol) and operation.target.name == "vprintf"
    )
