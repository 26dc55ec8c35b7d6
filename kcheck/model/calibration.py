"""How far an op's correct kernel was from its reference, as a calibration file keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Envelope:
    """The scaled errors of one output dtype of an op (see :attr:`Comparison.max_scaled`), one for each output of
    each case.

    Attributes:
        envelope: what is accepted: MARGIN times ``p95``, at least one rounding of the dtype.
        cases: how many errors there were.
        median, p95, largest: of them; ``p95`` is the smallest that 95 % do not exceed.
    """

    envelope: float
    cases: int
    median: float
    p95: float
    largest: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """One op's part of a calibration file.

    Attributes:
        seed: the master seed that its cases were drawn from.
        cases: how many cases were run.
        device: what ran them: ``cpu``, or ``gpu`` with the GPU's name.
        versions: of ``kcheck`` and ``numba-cuda``.
        envelopes: by output dtype.
    """

    op: str
    seed: int
    cases: int
    device: str
    versions: Mapping[str, str]
    envelopes: Mapping[str, Envelope]
