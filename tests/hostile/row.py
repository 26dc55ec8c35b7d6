"""One row of the table of hostile kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, and what must come of it; what is None is not asked.

    Attributes:
        kernel: Python that defines ``k``; the line marked ``# here`` must be the finding's.
        launch: Python that launches it; ``place(name, array)`` copies an array to the device under a name.
        rule: of the finding; None: there must be none.
        raises: pattern of the exception; None: there must be none.
        says: pattern in the finding's message.
        array, index, block, thread: of the finding.
        limit: seconds that the launch may take.
        value: what the launch's ``value`` must be.
    """

    family: str
    name: str
    kernel: str
    launch: str
    rule: str | None = None
    raises: str | None = None
    says: str | None = None
    array: str | None = None
    index: tuple[int, ...] | None = None
    block: Index3 | None = None
    thread: Index3 | None = None
    limit: float = 20.0
    value: Any = None

    @property
    def id(self) -> str:
        """The name of the row in tests."""
        return f"{self.family}: {self.name}"
