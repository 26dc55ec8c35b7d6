"""What all processes together have measured of a kernel's code: kept in the cache, next to the code.

Processes that end at the same time may lose each other's seconds. That only postpones better code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.contest import LaunchClass
from kcheck.dataclass import dataclass

LEAST = 0.01
"""Seconds of launches for which it is worthwhile to write a file."""


@dataclass(slots=True)
class CodeMeasurements:
    """Measurements of a kernel's code.

    Attributes:
        ran: seconds of its launches while there was only quick code.
        compiled: seconds that its compilations took.
        quick_won: by class of launches, whether quick code is faster than better code.
    """

    ran: float = 0.0
    compiled: float = 0.0
    quick_won: dict[LaunchClass, bool] = field(default_factory=dict)

    def __add__(self, more: CodeMeasurements) -> CodeMeasurements:
        return CodeMeasurements(
            self.ran + more.ran, self.compiled + more.compiled, {**self.quick_won, **more.quick_won}
        )


class CodeHistory:
    """The measurements of one kernel's code.

    Args:
        name: the name of the key of the code, without its tier.
    """

    def __init__(self, cache: ObjectCache, name: str) -> None:
        self._cache = cache
        self._key = f"history\0{name}"
        self._before = self._load()
        self._now = CodeMeasurements()

    def _load(self) -> CodeMeasurements:
        found: CodeMeasurements | None = self._cache.load(self._key)
        return found or CodeMeasurements()

    @property
    def ran(self) -> float:
        """As :attr:`CodeMeasurements.ran`."""
        return self._before.ran + self._now.ran

    @property
    def compiled(self) -> float:
        """As :attr:`CodeMeasurements.compiled`."""
        return self._before.compiled + self._now.compiled

    def quick_won(self, launches: LaunchClass) -> bool | None:
        """Whether quick code is faster in launches of a class; None if this was not measured."""
        known = self._now.quick_won.get(launches)
        return self._before.quick_won.get(launches) if known is None else known

    def add_launch(self, seconds: float) -> None:
        """Count a launch of quick code."""
        self._now.ran += seconds

    def add_compilation(self, seconds: float) -> None:
        """Count a compilation."""
        self._now.compiled += seconds
        self.save()

    def decide(self, launches: LaunchClass, *, quick_won: bool) -> None:
        """Keep which code is faster in launches of a class."""
        self._now.quick_won[launches] = quick_won
        self.save()

    def save(self) -> None:
        """Add what this process has measured to what others have stored."""
        self._before, self._now = self._load() + self._now, CodeMeasurements()
        self._cache.store(self._key, self._before)

    @property
    def is_worth_saving(self) -> bool:
        """Whether launches took long enough since the last :meth:`save`."""
        return self._now.ran >= LEAST and self._cache.exists


def save_all(histories: Iterable[CodeHistory]) -> None:
    """Save what is worth it, at the end of a process."""
    for history in histories:
        if history.is_worth_saving:
            history.save()
