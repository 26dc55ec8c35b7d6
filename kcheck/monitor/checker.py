"""Checkers, which start and stop the checking of monitored functions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack

from kcheck.errors import UserError
from kcheck.monitor import lifetime
from kcheck.monitor.calls import MonitoredSite, OnMismatch
from kcheck.monitor.decorating import F, SiteSettings, VerifierNames, check_probability, monitored
from kcheck.monitor.running import Run, inside, log
from kcheck.monitor.stats import Stats
from kcheck.monitor.waiting import POLICIES, Policy
from kcheck.nearest import did_you_mean

if TYPE_CHECKING:
    from kcheck.api.spec import SpecLike
    from kcheck.monitor.outliers import ExecutionOutlierDetector

P = ParamSpec("P")
R = TypeVar("R")

QUEUE_BYTES = 256 << 20
RTOL, ATOL = 1e-2, 1e-8
"""The default tolerances of ``equivalent``, which are those of cuda-kernel-verifier."""
AT_EXIT = 10.0
"""The maximum time for checking the waiting calls when the interpreter exits, in seconds."""


class _OrDefault(Generic[P, R]):
    """A method that acts on the default checker if it is called on the class."""

    def __init__(self, method: Callable[Concatenate[EquivalenceChecker, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: EquivalenceChecker | None, owner: type[EquivalenceChecker]) -> Callable[P, R]:
        bound: Callable[P, R] = self._method.__get__(owner.default() if instance is None else instance)
        return bound


class EquivalenceChecker:
    """Runs the references of monitored functions in the background and compares results.

    Called on the class, the methods use the default checker, to which ``@equivalent`` attaches a function.
    ``EquivalenceChecker()`` makes another checker, and ``@checker.equivalent`` attaches a function to it. A
    started checker is also a context manager that stops it.

    >>> import numpy as np
    >>> from kcheck.monitor import EquivalenceChecker
    >>> checker = EquivalenceChecker()
    >>> found = []
    >>> @checker.equivalent(lambda x: x + x, found.append)
    ... def double(x):
    ...     return np.where(x > 2, x, 2 * x)
    >>> with checker.start(sample_probability=1.0):
    ...     for value in range(4):
    ...         _ = double(np.full(3, value, np.float32))
    >>> checker.stats().checked, len(found)
    (4, 1)
    >>> found[0].number, found[0].original_result, found[0].ground_truth_result
    (4, array([3., 3., 3.], dtype=float32), array([6., 6., 6.], dtype=float32))
    """

    _default: EquivalenceChecker | None = None

    def __init__(self) -> None:
        self._run: Run | None = None
        self._last: Run | None = None
        self._paused: list[Run | None] = []
        self._changing = threading.Lock()
        self._sites: weakref.WeakSet[MonitoredSite] = weakref.WeakSet()
        lifetime.watch(self)

    @classmethod
    def default(cls) -> EquivalenceChecker:
        """The checker that the class stands for."""
        if EquivalenceChecker._default is None:
            EquivalenceChecker._default = EquivalenceChecker()
        return EquivalenceChecker._default

    @_OrDefault
    def start(
        self,
        max_execution_queue_size: int = 0,
        execution_sample_probability: float = 0.5,
        *,
        max_queue_bytes: int = QUEUE_BYTES,
        policy: Policy = "drop-newest",
        sample_probability: float | None = None,
        workers: int = 1,
    ) -> EquivalenceChecker:
        """Start to check calls. Detectors forget earlier inputs, and counts begin at 0.

        Args:
            max_execution_queue_size: the maximum number of waiting calls; 0: as many as fit in
                ``max_queue_bytes``.
            execution_sample_probability: cuda-kernel-verifier's name for ``sample_probability``.
            max_queue_bytes: the maximum size of the copies of inputs and results of waiting calls and of those
                being checked.
            policy: what to do with a call if the queue is full: ``drop-newest`` drops it, ``drop-oldest`` drops
                the calls that have waited longest, ``block`` makes the caller wait.
            sample_probability: the probability of checking a call whose inputs are not unusual, in [0, 1].
            workers: threads that run references.

        Returns:
            The checker. A running checker is not changed.

        Raises:
            UserError: an argument is not allowed.
        """
        probability = execution_sample_probability if sample_probability is None else sample_probability
        check_probability(probability)
        if policy not in POLICIES:
            raise UserError(f"unknown policy {policy!r}; {did_you_mean(policy, POLICIES) or ', '.join(POLICIES)}")
        if max_queue_bytes <= 0 or workers <= 0 or max_execution_queue_size < 0:
            raise UserError("max_queue_bytes and workers must be positive, max_execution_queue_size 0 or positive")
        with self._changing:
            if self._run is not None:
                log.warning(
                    "EquivalenceChecker.start: it is already running; stop it first to change its settings"
                )
                return self
            for site in list(self._sites):
                site.reset()
            run = Run(max_queue_bytes, max_execution_queue_size, policy, probability, workers)
            run.start_threads()
            lifetime.prepare()
            self._run = self._last = run
        return self

    @_OrDefault
    def stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Stop: new calls are not checked. Waiting calls are, unless ``drain`` is False.

        Args:
            timeout: seconds for the waiting calls; None: no limit. The remaining ones are dropped and counted.

        Raises:
            MismatchError: the policy is ``raise``, and there are mismatches that no later call has raised.
            Exception: the first one that an ``on_mismatch`` raised.
        """
        run = self._close(drain, timeout)
        if run is not None:
            run.raise_failed()
            if run.callback_error is not None:
                error, run.callback_error = run.callback_error, None
                raise error

    def _close(self, drain: bool, timeout: float | None) -> Run | None:
        """Stop without raising mismatches."""
        with self._changing:
            run, self._run = self._run, None
        if run is None:
            return None
        left = run.waiting.close(drain=drain)
        worker = getattr(
            inside, "checking", False
        )  # an on_mismatch that stops its checker must not wait for itself
        if drain and not worker and not run.waiting.idle(timeout):
            left = run.waiting.close(drain=False)
            timeout = 0.0
        for call in left:
            run.drop(call.site, "stopped")
        if not worker:
            for thread in run.threads:
                thread.join(timeout)
        found = run.stats()
        lost = sum(count for reason, count in found.dropped.items() if reason != "screening")
        if found.mismatches or found.reference_errors or found.copy_errors or lost:
            log.warning(
                "%s of %s calls checked; mismatches: %s, errors of references: %s, of copies: %s, dropped: %s",
                *(f"{n:,}" for n in (found.checked, found.calls, found.mismatches, found.reference_errors)),
                *(f"{n:,}" for n in (found.copy_errors, lost)),
            )
        return run

    @_OrDefault
    def is_running(self) -> bool:
        """Whether calls are checked now."""
        return self._run is not None

    @_OrDefault
    def set_sample_probability(self, probability: float) -> None:
        """Change the probability of checking a call whose inputs are not unusual.

        Raises:
            UserError: it is not in [0, 1], or the checker is not running.
        """
        check_probability(probability)
        run = self._run
        if run is None:
            raise UserError("the checker is not running; pass sample_probability to start()")
        run.probability = probability

    set_execution_sample_probability = set_sample_probability

    @_OrDefault
    def flush(self, timeout: float | None = None) -> bool:
        """Wait until every waiting call is checked.

        Args:
            timeout: seconds; None: no limit.

        Returns:
            False if the time limit was reached first.
        """
        run = self._run
        return run is None or run.waiting.idle(timeout)

    @_OrDefault
    def stats(self) -> Stats:
        """The counts since the checker started. They remain available after it stops."""
        return Stats() if self._last is None else self._last.stats()

    def equivalent(
        self,
        reference: Callable[..., Any] | None = None,
        on_mismatch: OnMismatch | None = None,
        *,
        rtol: float = RTOL,
        atol: float = ATOL,
        outlier_detector: ExecutionOutlierDetector | Literal[False] | None = None,
        sample_probability: float | None = None,
        spec: SpecLike | None = None,
        **theirs: Unpack[VerifierNames],
    ) -> Callable[[F], F]:
        """:func:`kcheck.monitor.equivalent`, for functions of this checker."""
        settings = SiteSettings(rtol, atol, outlier_detector, sample_probability, spec)
        return monitored(self, reference, on_mismatch, settings, **theirs)

    def __enter__(self) -> EquivalenceChecker:
        if self._run is None:
            self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.stop()
        else:
            self._close(True, None)

    def _exit(self) -> None:
        """When the interpreter exits: check the waiting calls for up to AT_EXIT seconds,
        and log mismatches instead of raising them."""
        run = self._close(True, AT_EXIT)
        for mismatch in run.failed if run is not None else ():
            log.error("%s", mismatch)

    def _before_fork(self) -> None:
        """Before a fork in this thread: let the checking threads finish
        their current checks, so that they hold no locks."""
        self._paused.append(run := self._run)
        if run is not None:
            run.waiting.pause(lifetime.PAUSE, own=getattr(inside, "checking", None) is run)

    def _after_fork(self) -> None:
        run = self._paused.pop()
        if run is not None:
            run.waiting.resume()

    def _forked(self) -> None:
        """In the child of a fork: start without threads and waiting calls, which only the parent has."""
        self._changing = threading.Lock()
        self._paused.clear()
        for site in list(self._sites):
            site.reset()
        if self._run is not None:
            self._run.renew()
