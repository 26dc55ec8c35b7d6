"""What the modifiers and operands of memory instructions say: space, type, and number of elements."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Operand, Vector
from kcheck.ptx.syntax.types import TYPES, PtxType

_SPACES = frozenset({"global", "shared", "local", "const", "param"})
_HINTS = frozenset(
    [
        "weak",
        "volatile",
        "relaxed",
        "acquire",
        "release",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "unified",
        "mmio",
    ]
)
_HINT_PREFIXES = ("L1::", "L2::", "level")


@dataclass(frozen=True, slots=True)
class AccessForm:
    """The modifiers of a load or store. ``count`` elements of ``kind``."""

    space: str
    kind: PtxType
    count: int


def form(fn: Surroundings, i: Instruction) -> AccessForm:
    """The properties given by the modifiers of a memory instruction.

    Raises:
        PtxError: an unsupported modifier.
    """
    space, count = "generic", 1
    for modifier in i.modifiers[:-1]:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            space = name
        elif modifier in ("v2", "v4", "v8"):
            count = int(modifier[1:])
        elif modifier not in _HINTS and not modifier.startswith(_HINT_PREFIXES):
            raise fn.fail(i, f".{modifier} is not supported")
    kind = TYPES.get(i.modifiers[-1]) if i.modifiers else None
    if kind is None or kind.kind == "pred" or kind.bits > 64:
        raise fn.fail(i, "not supported")
    return AccessForm(space, kind, count)


def elements(fn: Surroundings, i: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers of a vector operand, or the operand alone."""
    if count == 1 and not isinstance(operand, Vector):
        return (operand,)
    if isinstance(operand, Vector) and len(operand.elements) == count:
        return operand.elements
    raise fn.fail(i, f"expected a vector of {count} registers")


def is_of_elements(f: AccessForm) -> bool:
    """Whether lanes that access adjacent memory may do so in one access."""
    return f.count == 1 and f.space not in ("param", "local")
