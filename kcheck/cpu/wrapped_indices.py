"""Accesses outside an array whose address was computed with 32-bit arithmetic that wrapped, which is the cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcheck.model import Finding
from kcheck.ptx.abi import FAULTS, FaultKind, FaultRecord
from kcheck.ptx.program import Program, Site

_CAUSE = "; its index wrapped: "
FIX = "compute it in 64 bits: convert an operand, not the result"


def exact_result(fault: FaultRecord) -> int:
    """The number that did not fit in 32 bits."""
    address = int(fault.address)
    return address - (1 << 64 if address >> 63 else 0)


def is_wrapped(finding: Finding) -> bool:
    """Whether a finding is an access at an index that wrapped."""
    return finding.rule == "memcheck" and _CAUSE in finding.message


class WrappedIndices:
    """The accesses of a launch whose address wrapped, by their line and thread."""

    def __init__(self, faults: Iterable[FaultRecord], program: Program) -> None:
        self._program = program
        self._exact = {
            self._at(fault): exact_result(fault) for fault in faults if fault.kind == FaultKind.WRAPPED_ADDRESS
        }

    def explained(self, finding: Finding, fault: FaultRecord) -> Finding:
        """The finding of a fault, with the overflow as its cause if the same thread's address wrapped there."""
        exact = self._exact.get(self._at(fault)) if FAULTS[FaultKind(fault.kind)].rule == "memcheck" else None
        if exact is None or is_wrapped(finding):
            return finding
        return replace(finding, message=f"{finding.message}{_CAUSE}{exact} does not fit in 32 bits", fix=FIX)

    def _at(self, fault: FaultRecord) -> tuple[object, ...]:
        site: Site | None = None
        if fault.site < len(self._program.sites):
            site = self._program.sites[fault.site]
        line = None if site is None else (site.file, site.source_line or site.line)
        return line, tuple(fault.block), tuple(fault.thread)
