"""Monitored functions, and their calls that were chosen to be checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from kcheck.monitor.arrays import as_host, host_view
from kcheck.monitor.mismatch import Frames, Mismatch
from kcheck.monitor.outliers import ExecutionOutlierDetector, OutlierDetector

if TYPE_CHECKING:
    from kcheck.monitor.specs import SpecJudge

OnMismatch: TypeAlias = Callable[[Mismatch], object] | Literal["raise", "log", "save"]
WATCHED = 4
"""The maximum number of array arguments that the default detector examines."""


class CallOwner(Protocol):
    """The run that chose a call.

    Attributes:
        token: changes when the process forks; a call with another token is not of this process.
    """

    token: object

    def end(self, call: MonitoredCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the result of a call."""

    def abandoned(self, call: MonitoredCall) -> None:
        """Forget a call whose function raised."""


@dataclass(eq=False)
class MonitoredSite:
    """A monitored function.

    Attributes:
        name: module and qualified name.
        detector: None: the default; False: none.
        probability: None: the checker's.
        looking: the default detectors of the array arguments, by position.
    """

    name: str
    reference: Callable[..., Any]
    on_mismatch: OnMismatch
    rtol: float
    atol: float
    detector: ExecutionOutlierDetector | Literal[False] | None
    probability: float | None
    judge: SpecJudge | None
    looking: list[OutlierDetector] = field(default_factory=list)

    def reset(self) -> None:
        """Forget the inputs of earlier runs."""
        self.looking = []
        if self.detector:
            self.detector.reset()

    def is_outlier(self, arrays: list[Any]) -> bool | None:
        """Whether the inputs of a call are unusual; None if that cannot be known without waiting for a device."""
        if self.detector is False or not arrays:
            return False
        if self.detector is not None:
            if host_view(arrays[0]) is None:
                return None
            return self.detector.is_outlier(arrays[0])
        views = [host_view(array) for array in arrays[:WATCHED]]
        if any(view is None for view in views):
            return None
        return self._any_unusual(views)

    def is_outlier_on_host(self, arrays: list[Any]) -> bool:
        """Whether the inputs of a call are unusual. Waits for a device if necessary."""
        if self.detector:
            return self.detector.is_outlier(arrays[0])
        return self._any_unusual([as_host(array) for array in arrays[:WATCHED]])

    def _any_unusual(self, views: list[Any]) -> bool:
        if len(self.looking) < len(views):
            self.looking = [OutlierDetector(0.02 / len(views)) for _ in views]
        found = False
        for detector, view in zip(self.looking, views, strict=False):
            found |= detector.is_outlier(view)
        return found


class MonitoredCall:
    """A call that was chosen: copies of its arguments, and later of its result.

    Attributes:
        certain: False if a detector must still examine its inputs.
        size: bytes reserved for it.
        reference: the reference of its site; a copy, if it is a torch module, whose parameters may change.
        after: copies of its arguments after the call, if the function returned None.
    """

    __slots__ = (
        "after",
        "args",
        "certain",
        "frames",
        "kwargs",
        "number",
        "reference",
        "result",
        "run",
        "site",
        "size",
        "token",
    )

    def __init__(self, run: CallOwner, site: MonitoredSite, number: int, size: int, certain: bool) -> None:
        self.run: CallOwner | None = run
        self.token = run.token
        self.site, self.number, self.size, self.certain = site, number, size, certain
        self.reference = site.reference
        self.args: tuple[Any, ...] = ()
        self.kwargs: Mapping[str, Any] = {}
        self.result: Any = None
        self.after: tuple[Any, ...] | None = None
        self.frames: Frames = ()

    def __del__(self) -> None:
        """The function raised an exception, so there is nothing to check."""
        run = getattr(self, "run", None)  # torch's compiler makes calls without calling __init__
        if run is not None and self.token is run.token:
            run.abandoned(self)
