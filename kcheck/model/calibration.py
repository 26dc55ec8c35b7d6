"""The errors of an op's correct kernel, as stored in a calibration file."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Envelope:
    """The scaled errors of one output dtype of an op (see :attr:`Comparison.max_scaled`), one for each output of
    each case.

    Attributes:
        envelope: the accepted error: MARGIN times ``p95``, but at least one rounding of the dtype.
        cases: the number of errors.
        median, p95, largest: statistics of these errors.
    """

    envelope: float
    cases: int
    median: float
    p95: float
    largest: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The entry of one op in a calibration file.

    Attributes:
        seed: the master seed of its cases.
        cases: how many cases were run.
        device: the device that ran them: ``cpu``, or ``gpu`` with the GPU's name.
        versions: the versions of ``kcheck`` and ``numba-cuda``.
        envelopes: by output dtype.
    """

    op: str
    seed: int
    cases: int
    device: str
    versions: Mapping[str, str]
    envelopes: Mapping[str, Envelope]
