"""Child processes: how they begin, how they die with their parent, and how they ended."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def fork(work: Callable[[], int | None]) -> int:
    """Fork this process; returns the child's number. The child does some work and ends, with the exit code that
    the work returns, where None is 0; 1 if it raises."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns about a fork with threads; may_fork says which there are.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = work() or 0
    finally:
        os._exit(code)


def may_fork() -> bool:
    """Whether a forked copy of this process can run Python code: no thread may hold a lock that the copy needs.
    kcheck's own threads are idle between launches, and the progress bar's only draws."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    return all(
        thread.name.startswith("kcheck-") or type(thread).__module__.partition(".")[0] == "rich"
        for thread in others
    )


def without_streams(first: int = 0, last: int = 2) -> None:
    """In a child: connect standard input, output and errors, or some of them, to nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(first, last + 1):
        os.dup2(nothing, stream)
    os.close(nothing)


def die_with_parent(parent: int | None = None) -> None:
    """In a child: be killed when the thread that forked it ends, for any reason (Linux: ``prctl(2)``).

    Args:
        parent: the number of the process that forked it, which may already have died.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def die_with_pipe(pipe: int) -> None:
    """In a child that a thread of another process started: end when the other end of a pipe is closed. Linux sends
    SIGIO, which by default ends it."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def wait(child: int) -> int:
    """The exit code of a child once it has ended; negative: the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ended(child: int, patience: float = 0.0) -> bool:
    """Whether a child ends within ``patience`` seconds. If it does, its number is no longer valid."""
    deadline = time.monotonic() + patience
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def kill(child: int) -> None:
    """Kill a child, if it runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def ending(code: int) -> str:
    """How a process with this exit code ended: ``exit code 1``, ``SIGSEGV``."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


class Forked:
    """A fork of this process that does some work without printing anything, and ends. Requires :func:`may_fork`.

    Args:
        work: the function that it calls.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        def quietly() -> None:
            os.setsid()  # the parent handles Ctrl-C and then ends the child
            without_streams()
            # The parent's streams may contain unwritten text, or a lock that another thread holds.
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
            work()

        self._child = fork(quietly)
        self._runs = True

    @property
    def running(self) -> bool:
        self._runs = self._runs and not ended(self._child)
        return self._runs

    def kill(self) -> None:
        if self.running:
            kill(self._child)
            self._runs = False
