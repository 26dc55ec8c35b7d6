"""The exceptions of kcheck.

::

    Exception
    └── KcheckError
        ├── UserError            an error that the user can fix: exit code 2
        │   ├── SpecError        an op spec is wrong; carries every fault found in it
        │   ├── KernelError      a kernel, launcher, reference or generator file cannot be used
        │   ├── PtxError         PTX that kcheck does not model, or that is not PTX
        │   └── DeviceUnavailable  the requested device is not available
        └── InternalError        an internal error of kcheck: exit code 3

Packages define more subclasses of these, such as ``StoreError`` and ``NotAnArray``.

A kernel that computes wrong results does not raise an exception: that is a verdict, with exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.span import Fault, Span


class KcheckError(Exception):
    """Base of every exception that kcheck raises on purpose."""


class UserError(KcheckError):
    """An error that the user can fix. The message says where, what, and how to fix it."""


class SpecError(UserError):
    """An invalid op spec.

    Args:
        faults: every fault found, in the order of the file.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class KernelError(UserError):
    """User code that cannot be used: it cannot be imported, or does not define the named function.

    Args:
        span: the place, in any file.
        what: what is wrong, in one sentence.
        fix: how to fix it; empty if no fix is known.
    """

    def __init__(self, span: Span, what: str, fix: str = "") -> None:
        self.fault = Fault(span, what, fix)
        super().__init__(str(self.fault))


class PtxError(UserError):
    """PTX that is malformed or not supported; the message starts with ``file.ptx:line:``.

    Args:
        what: what is wrong, in one sentence.
        file, line: the place; no line if it is unknown.
    """

    def __init__(self, what: str, file: str = "", line: int = 0) -> None:
        self.what, self.place = what, Span(file, line, 1) if line else None
        super().__init__(f"{file}:{line}: {what}" if line else what)


class DeviceUnavailable(UserError):
    """The requested device is not available on this machine."""


class InternalError(KcheckError):
    """An internal error of kcheck. The command line writes a log to attach to a report, and exits with 3."""
