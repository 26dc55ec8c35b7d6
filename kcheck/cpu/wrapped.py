"""Describes 32-bit arithmetic that wraps around on its way to an address, how to fix it, and which accesses
outside an array it causes.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import replace

from kcheck.cpu.naming import Naming
from kcheck.cpu.sources import source_of
from kcheck.model import Finding
from kcheck.ptx.abi import FAULTS, FaultKind, FaultRecord
from kcheck.ptx.program import Program, Site
from kcheck.rules.language import Language
from kcheck.span import Span

_WORD = r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*(?:\([^()]*\)|\[[^\[\]]*\])*"
_PRODUCT = re.compile(rf"({_WORD})\s*\*\s*({_WORD}|\d+)(?![\w.(\[])")


def wrapped_text(exact: int, access: Span | None) -> str:
    """The message, given the exact result. It is reported at the arithmetic.

    Args:
        access: the place that uses it as an address.
    """
    low = exact & 0xFFFF_FFFF
    # From 2**32 on, an unsigned number may have wrapped, too; as an offset, it is most often signed.
    number = low - (1 << 32 if low >> 31 else 0)
    where = f" at line {access.line}" if access is not None else ""
    return (
        f"the result, {exact:,}, does not fit in 32 bits and wraps around to {number:,}, "
        f"which is used as an address{where}"
    )


def wrapped_fix(arithmetic: Site | None, words: Language) -> str:
    """The fix. It names the product, if the line has only one."""
    if arithmetic is not None and arithmetic.text.endswith("64"):  # what is computed in 64 bits is then converted
        return (
            "keep it in 64 bits: remove the conversion to 32 bits, or the variable of 32 bits that it is stored in"
        )
    found = _product(arithmetic)
    if found is None:
        return f"compute it in 64 bits: convert an operand, as in {words.wide('i')}, not the result"
    one, other = found
    either = one if other.isdecimal() else f"{one} or {other}"
    example = f"as in {words.wide(one)}"
    return f"`{one} * {other}` is computed in 32 bits: make {either} 64 bits wide before the product, {example}"


def _product(arithmetic: Site | None) -> tuple[str, str] | None:
    """The operands of the only product on the line of an instruction; of several, that at its column."""
    if arithmetic is None or not arithmetic.source_line:
        return None
    text = re.sub(r"//.*|#.*", "", linecache.getline(arithmetic.file, arithmetic.source_line))
    found = list(_PRODUCT.finditer(text))
    if len(found) > 1:
        column = arithmetic.column - 1
        found = [match for match in found if match.start() <= column < match.end()]
    return (found[0][1], found[0][2]) if len(found) == 1 else None


def exact_result(fault: FaultRecord) -> int:
    """The number that did not fit in 32 bits."""
    address = int(fault.address)
    return address - (1 << 64 if address >> 63 else 0)


class WrappedIndices:
    """The accesses of a launch whose address wrapped, by their line and thread."""

    def __init__(self, faults: Iterable[FaultRecord], program: Program, naming: Naming) -> None:
        self._program = program
        self._naming = naming
        self._wrapped = {self._at(fault): fault for fault in faults if fault.kind == FaultKind.WRAPPED_ADDRESS}

    def cause(self, fault: FaultRecord) -> FaultRecord | None:
        """The overflow due to which the same thread accessed memory outside all arrays; None if there is none."""
        return self._wrapped.get(self._at(fault)) if FAULTS[FaultKind(fault.kind)].rule == "memcheck" else None

    def explained(self, finding: Finding, cause: FaultRecord) -> Finding:
        """A finding with the overflow that is its cause."""
        told = finding.adding(f"its index wrapped: {exact_result(cause):,} does not fit in 32 bits")
        words = self._naming.words(finding.place)
        return replace(told, fix=wrapped_fix(source_of(cause, self._program), words))

    def _at(self, fault: FaultRecord) -> tuple[object, ...]:
        site: Site | None = None
        if fault.site < len(self._program.sites):
            site = self._program.sites[fault.site]
        line = None if site is None else (site.file, site.source_line or site.line)
        return line, tuple(fault.block), tuple(fault.thread)
