"""Messages about barriers and warp masks: how many threads wait where, and for which threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind, FaultRecord
from kcheck.ptx.program import Site
from kcheck.ptx.runtime.waiting import waiting


@dataclass(frozen=True, slots=True)
class GridWait:
    """Blocks of a launch that did not all reach the same grid barrier.

    Attributes:
        places: by the site of a grid barrier, the blocks that wait there, as linear indices.
        gone: how many blocks have ended.
    """

    places: Mapping[int, Sequence[int]]
    gone: int

    @property
    def site(self) -> int:
        """The site at which the fewest blocks wait."""
        return min(self.places, key=lambda site: len(self.places[site]))

    def text(self, sites: Sequence[Site], blocks: int) -> str:
        """The message. ``blocks``: the number of blocks of the launch."""
        here = len(self.places[self.site])
        text = f"{here} of {_count(blocks, 'block')} {_wait(here)} at this grid barrier"
        for site, there in self.places.items():
            if site != self.site:
                text += f", {len(there)} at the one on {_line(sites[site])}"
        return text + (f", and {self.gone} ended without reaching it" if self.gone else "")


MASKS = frozenset(
    {
        FaultKind.WARP_MASK,
        FaultKind.WARP_MASK_GONE,
        FaultKind.WARP_MASK_SELF,
        FaultKind.WARP_ALIGNED,
        FaultKind.SHUFFLE_GONE,
    }
)
_RANGES = 4  # the most ranges of lanes that are listed


def barrier_text(kind: FaultKind, fault: FaultRecord, sites: Sequence[Site], threads: int) -> str:
    """The message for a fault of a barrier.

    Args:
        sites: of the program.
        threads: of a block.
    """
    told = waiting(fault.address)
    other = sites[told["other"] - 1] if told["other"] else None
    here, there, gone = fault.size, told["there"], told["gone"]
    if kind is FaultKind.BARRIER_COUNT:
        come = here + there
        number = f"barrier {told['barrier']}, which expects {told['asked'] or threads}"
        text = f"{come} threads reach {number}" if come != told["asked"] else f"too many threads reach {number}"
        return text + (f": {here} here and {there} on {_line(other)}" if other else "")
    if kind is FaultKind.BARRIER_SPLIT:
        text = f"only part of a warp reaches this barrier: {_count(here, 'thread')} {_wait(here)} here"
        return text + (f" and {there} on {_line(other)}" if other else "")
    barrier = "this grid barrier" if kind is FaultKind.GRID_BARRIER_EXITED else "this barrier"
    if told["asked"]:
        barrier = f"barrier {told['barrier']}, which expects {told['asked']}"
    text = f"{here} of {_count(threads, 'thread')} {_wait(here)} at {barrier}"
    if other is not None:
        elsewhere = threads - here - there - gone
        text += f", {there} at the one on {_line(other)}"
        text += f", {elsewhere} elsewhere" if elsewhere > 0 else ""
    if gone and kind is FaultKind.BARRIER_EXITED and not told["asked"]:
        return f"{text}; {gone} skipped it and exited"
    if gone:
        text += f"; {'the other ' if gone + here == threads else ''}{gone} exited"
    return text


def barrier_fix(fault: FaultRecord) -> str:
    """The fix for a barrier that has a number and counts its threads; empty for other barriers."""
    told = waiting(fault.address)
    if not told["asked"]:
        return ""
    match = f"make the waits and arrivals at barrier {told['barrier']} match"
    return f"{match}: in each phase, {told['asked']} threads wait or arrive there"


def mask_text(kind: FaultKind, fault: FaultRecord) -> str:
    """The message for lanes that break a rule of a warp-level operation."""
    lanes, here = fault.address & 0xFFFFFFFF, fault.address >> 32
    if kind is FaultKind.WARP_MASK_SELF:
        return f"{lanes_text(lanes)} {_takes(lanes)} part, but the mask does not name {_them(lanes)}"
    if kind is FaultKind.WARP_ALIGNED:
        do = "does" if _single(lanes) else "do"
        return f"all lanes of a warp must execute this, and {lanes_text(lanes)} {do} not"
    beyond = lanes >> fault.size << fault.size == lanes
    size = f"this warp has {_count(fault.size, 'lane')}"
    exited = f"which {'has' if _single(lanes) else 'have'} exited"
    if kind is FaultKind.SHUFFLE_GONE:
        return f"the shuffle reads {lanes_text(lanes)}, " + (f"but {size}" if beyond else exited)
    text = f"the mask names {lanes_text(lanes)}, "
    if kind is FaultKind.WARP_MASK_GONE:
        return text + (f"but {size}" if beyond else exited)
    text += f"which {'does' if _single(lanes) else 'do'} not take part"
    if beyond:
        return f"{text}: {size}"
    return f"{text}; {lanes_text(here)} {'does' if _single(here) else 'do'}"


def lanes_text(bits: int) -> str:
    """The lanes of a mask as text: ``lanes 0-15, 20``."""
    numbers = [lane for lane in range(32) if bits >> lane & 1]
    ranges: list[list[int]] = []
    for lane in numbers:
        if ranges and ranges[-1][-1] == lane - 1:
            ranges[-1] = [ranges[-1][0], lane]
        else:
            ranges.append([lane])
    text = ", ".join("-".join(map(str, ends)) for ends in ranges[:_RANGES])
    more = f" ... ({len(numbers)} in all)" if len(ranges) > _RANGES else ""
    return f"lane{'' if len(numbers) == 1 else 's'} {text}{more}"


def _line(site: Site | None) -> str:
    assert site is not None
    return f"line {site.source_line}" if site.source_line else f"line {site.line} of the PTX"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _wait(n: int) -> str:
    return "waits" if n == 1 else "wait"


def _single(lanes: int) -> bool:
    return lanes & (lanes - 1) == 0


def _takes(lanes: int) -> str:
    return "takes" if _single(lanes) else "take"


def _them(lanes: int) -> str:
    return "it" if _single(lanes) else "them"
