"""What is known about a function's control flow before it is lowered."""

from __future__ import annotations

from collections.abc import Callable

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import Liveness
from kcheck.ptx.syntax.ast import Operation


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """What the analyses found out about a function's control flow before it is lowered.

    Attributes:
        spinning: headers of the loops that may spin.
        keeps: whether a register must keep its value in the lanes that do not execute a block.
        waits: whether lanes may have to wait at an operation.
        parts: whether the branch at the end of a block may send lanes of a vector different ways.
    """

    cfg: Cfg
    live: Liveness
    spinning: frozenset[int]
    keeps: Callable[[int, str], bool]
    waits: Callable[[Operation], bool]
    parts: Callable[[int], bool]
