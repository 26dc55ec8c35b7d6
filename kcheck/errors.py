"""The exceptions of kcheck.

::

    Exception
    └── KcheckError
        ├── UserError            an error that the user can fix: exit code 2
        │   ├── SpecError        an op spec is wrong; carries every fault found in it
        │   ├── KernelError      a kernel, launcher, reference or generator file cannot be used
        │   ├── PtxError         PTX that kcheck does not model, or that is not PTX
        │   └── DeviceUnavailable  the device asked for is not here
        └── InternalError        an internal error of kcheck: exit code 3

A kernel that computes the wrong thing is none of these: it is a verdict, exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterable


class KcheckError(Exception):
    """Base of every exception that kcheck raises on purpose."""


class UserError(KcheckError):
    """An error that the user can fix. The message says where, what, and how to fix it."""


class SpecError(UserError):
    """An op spec that is refused.

    Args:
        faults: every fault found, in the order of the file; ``str()`` of one is the line to print
            (normally :class:`kcheck.model.Fault`, which this floor must not import).
    """

    def __init__(self, faults: Iterable[object]) -> None:
        self.faults: tuple[object, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class KernelError(UserError):
    """User code that cannot be loaded: it does not import, or lacks the function that is named."""


class PtxError(UserError):
    """PTX that is malformed or not supported; the message starts with ``file.ptx:line:``."""


class DeviceUnavailable(UserError):
    """The device asked for does not answer on this machine."""


class InternalError(KcheckError):
    """An internal error of kcheck. The command line writes a log to attach to a report, and exits with 3."""
