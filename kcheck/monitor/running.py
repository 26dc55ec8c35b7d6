"""One run of a checker, from start to stop: which calls are checked, and the threads that check them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from kcheck.errors import KcheckError
from kcheck.monitor.arrays import Copies, arrays_in, is_traced, ready, size_of
from kcheck.monitor.calls import MonitoredCall, MonitoredSite
from kcheck.monitor.lifetime import IMPORTING
from kcheck.monitor.mismatch import Mismatch, MismatchError, frames
from kcheck.monitor.stats import COUNTERS, FunctionStats, Stats
from kcheck.monitor.waiting import Policy, Waiting

log = logging.getLogger("kcheck.monitor")

KEPT = 100
"""The maximum number of mismatches that wait to be raised."""
LOGGED = 10
"""How many messages of a kind are logged in full; then the 100th, the 1,000th ..."""
FIXES = {
    "full": "the queue is full; lower sample_probability or add workers",
    "too large": "the queue is too small for it; raise max_queue_bytes",
    "traced": "a transformation traces it, so its arrays have no values; call it outside jit, grad and vmap",
}
"""The log message for each reason to drop a call; other reasons are not logged."""

inside = threading.local()
"""In a checking thread, ``inside.checking`` is its run,
so that functions that a reference calls are not monitored."""


class Counts:
    """The counts of one function in one run."""

    def __init__(self) -> None:
        for name in COUNTERS:
            setattr(self, name, 0)
        self.dropped: dict[str, int] = {}

    calls: int
    sampled: int
    outliers: int
    checked: int
    mismatches: int
    reference_errors: int
    copy_errors: int
    callback_errors: int
    raised: int

    def stats(self) -> FunctionStats:
        return FunctionStats(**{name: getattr(self, name) for name in COUNTERS}, dropped=dict(self.dropped))


class Run:
    """One run of a checker.

    Args:
        most, items, policy: as for the queue (:class:`Waiting`).
        probability: the probability of checking a call whose inputs are not unusual.
        workers: the number of checking threads.
    """

    def __init__(self, most: int, items: int, policy: Policy, probability: float, workers: int) -> None:
        self.settings = (most, items, policy)
        self.probability = probability
        self.workers = workers
        self.renew()

    def renew(self) -> None:
        """Start over after a fork, without the calls, counts, threads and locks of the parent process."""
        self.token = object()
        self.lock = threading.RLock()
        most, items, policy = self.settings
        self.waiting: Waiting[MonitoredCall] = Waiting(most, items, policy, self._evicted)
        self.counts: dict[str, Counts] = {}
        self.threads: list[threading.Thread] = []
        self.failed: list[Mismatch] = []
        self.callback_error: BaseException | None = None
        self._told: dict[tuple[str, str], int] = {}
        self._random = random.Random()

    # --- in the caller's thread ---

    def begin(self, site: MonitoredSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> MonitoredCall | None:
        """Before a call: choose whether to check it, and copy its arguments if so.

        Raises:
            MismatchError: there was a mismatch in an earlier call, and the policy of its function is ``raise``.
        """
        if self.failed:
            self.raise_failed()
        counts = self.counts_of(site)
        with self.lock:
            counts.calls += 1
            number = counts.calls
        wanted = self.probability if site.probability is None else site.probability
        chosen = self._random.random() < wanted
        try:
            arrays = list(arrays_in(*args, *kwargs.values()))
            if any(map(is_traced, arrays)):
                if chosen:
                    self.add(site, "sampled")
                    self.drop(site, "traced")
                return None
            unusual = site.is_outlier(arrays)
            if not chosen and unusual is False:
                return None
            if chosen or unusual:
                self.add(site, "sampled" if chosen else "outliers")
            return self._copied(site, number, arrays, args, kwargs, bool(chosen or unusual))
        except Exception as error:
            self._copy_error(site, error, chosen)
            return None

    def _copied(
        self,
        site: MonitoredSite,
        number: int,
        arrays: list[Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        certain: bool,
    ) -> MonitoredCall | None:
        size = size_of(iter(arrays))
        if why := self.waiting.reserve(size, item=True):
            self.drop(site, why if certain else "screening")
            return None
        call = MonitoredCall(self, site, number, size, certain)
        try:
            copies = Copies()
            call.args = copies.of(args)
            call.kwargs = copies.of(dict(kwargs))
            call.reference = copies.of(site.reference)
            if copies.size > size and (why := self._grow(call, copies.size - size)):
                self.drop(site, why if certain else "screening")
                return None
            call.frames = frames(sys._getframe(2))
        except BaseException:
            self._forget(call)
            raise
        return call

    def _grow(self, call: MonitoredCall, size: int) -> str:
        """Reserve memory for more copies of a call; drop the call if there is none."""
        if why := self.waiting.reserve(size, item=False):
            self._forget(call)
            return why
        call.size += size
        return ""

    def _forget(self, call: MonitoredCall) -> None:
        call.run = None
        self.waiting.release(call.size)

    def end(self, call: MonitoredCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """After a call: copy its result and add the call to the queue."""
        site = call.site
        reason = "screening" if not call.certain else ""
        try:
            seen = (args, dict(kwargs)) if result is None else result
            arrays = list(arrays_in(seen))
            if any(map(is_traced, arrays)):
                self._forget(call)
                self.drop(site, reason or "traced")
                return
            size = size_of(iter(arrays))
            why = self._grow(call, size)
            if not why:
                copies = Copies()
                made = copies.of(seen)
                why = self._grow(call, copies.size - size) if copies.size > size else ""
            if why:
                self.drop(site, reason or why)
                return
            call.after, call.result = (made, None) if result is None else (None, made)
        except Exception as error:
            self._forget(call)
            self._copy_error(site, error, call.certain)
            return
        call.run = None
        if not self.waiting.put(call):
            self.drop(site, reason or "stopped")
            return
        if not self.threads:
            self.start_threads()

    def abandoned(self, call: MonitoredCall) -> None:
        """The function of a chosen call raised an exception."""
        self.waiting.release(call.size)
        if call.certain:
            self.add(call.site, "raised")

    def raise_failed(self) -> None:
        """Raise the mismatches that have not been raised yet.

        Raises:
            MismatchError: there are some.
        """
        with self.lock:
            failed, self.failed = tuple(self.failed), []
        if failed:
            raise MismatchError(failed)

    # --- counting ---

    def counts_of(self, site: MonitoredSite) -> Counts:
        found = self.counts.get(site.name)
        if found is None:
            with self.lock:
                found = self.counts.setdefault(site.name, Counts())
        return found

    def add(self, site: MonitoredSite, name: str) -> int:
        """Increment a count, and return it."""
        counts = self.counts_of(site)
        with self.lock:
            now = int(getattr(counts, name)) + 1
            setattr(counts, name, now)
            return now

    def drop(self, site: MonitoredSite, reason: str) -> None:
        """Count a call that will not be checked."""
        counts = self.counts_of(site)
        with self.lock:
            counts.dropped[reason] = counts.dropped.get(reason, 0) + 1
        if reason in FIXES:
            self.tell(site, f"dropped, {reason}", f"a call of {site.name} is not checked: {FIXES[reason]}")

    def _evicted(self, call: MonitoredCall) -> None:
        self.drop(call.site, "full" if call.certain else "screening")

    def _copy_error(self, site: MonitoredSite, error: Exception, certain: bool) -> None:
        if certain:
            self.add(site, "copy_errors")
        self.tell(site, "copy", f"a call of {site.name} is not checked: its arrays cannot be copied", error)

    def tell(self, site: MonitoredSite, kind: str, message: str, error: BaseException | None = None) -> None:
        """Log a message. Of each kind, only the first ones and then the 100th, the 1,000th ... are logged."""
        with self.lock:
            count = self._told[site.name, kind] = self._told.get((site.name, kind), 0) + 1
        if count <= LOGGED or str(count).strip("0") == "1":
            many = f" (number {count:,} of its kind)" if count > LOGGED else ""
            log.error("%s%s", message, many, exc_info=error)

    def stats(self) -> Stats:
        with self.lock:
            functions = {name: counts.stats() for name, counts in self.counts.items()}
        total = sum(functions.values(), FunctionStats())
        waiting = self.waiting
        return Stats(
            **vars(total),
            pending=len(waiting) + waiting.working,
            queue_bytes=waiting.held,
            peak_queue_bytes=waiting.peak,
            functions=functions,
        )

    # --- in the threads that check ---

    def start_threads(self) -> None:
        """Start the threads, once."""
        with self.lock:
            if self.threads:
                return
            names = (f"kcheck-monitor-{next(_NUMBERS)}" for _ in range(self.workers))
            self.threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        inside.checking = self
        with on_own_stream():
            while (call := self.waiting.take()) is not None:
                try:
                    self._check(call)
                except Exception as error:
                    self.add(call.site, "reference_errors")
                    self.tell(call.site, "check", f"a call of {call.site.name} could not be compared", error)
                finally:
                    self.waiting.done(call)
                    del call

    def _check(self, call: MonitoredCall) -> None:
        with IMPORTING:
            from kcheck.monitor.checking import check
        site = call.site
        args, kwargs = ready(call.args), ready(call.kwargs)
        if not call.certain:
            if not site.is_outlier_on_host(list(arrays_in(*args, *kwargs.values()))):
                return
            self.add(site, "outliers")
        try:
            mismatch = check(call, args, kwargs)
        except (Exception, SystemExit) as error:
            self.add(site, "reference_errors")
            if isinstance(error, KcheckError):
                self.tell(site, "reference", f"a call of {site.name} could not be compared: {error}")
            else:
                self.tell(site, "reference", f"the reference of {site.name} raised an exception", error)
            return
        self.add(site, "checked")
        if mismatch is not None:
            self.add(site, "mismatches")
            self._deliver(site, mismatch)

    def _deliver(self, site: MonitoredSite, mismatch: Mismatch) -> None:
        if site.on_mismatch == "raise":
            with self.lock:
                if len(self.failed) < KEPT:
                    self.failed.append(mismatch)
        elif callable(site.on_mismatch):
            try:
                site.on_mismatch(mismatch)
            except (Exception, SystemExit) as error:
                self.add(site, "callback_errors")
                self.callback_error = self.callback_error or error
                self.tell(site, "callback", f"on_mismatch of {site.name} raised an exception", error)
        else:
            self.tell(site, "mismatch", str(mismatch))


_NUMBERS = itertools.count(1)


@contextlib.contextmanager
def on_own_stream() -> Iterator[None]:
    """Without gradients and on a separate CUDA stream, if torch is imported."""
    torch = sys.modules.get("torch")
    with contextlib.ExitStack() as stack:
        if torch is not None:
            stack.enter_context(torch.no_grad())
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
        yield
