"""A program for the tests of processes.

``python monitored_child.py fork|spawn|exit|bare-fork|fork-import|stuck``
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time

import numpy as np

from kcheck.monitor import EquivalenceChecker, Mismatch, equivalent


def on_mismatch(mismatch: Mismatch) -> None:
    print("mismatch", mismatch.number, flush=True)


def reference(x: np.ndarray) -> np.ndarray:
    if STUCK:
        time.sleep(600)
    if IMPORTS:
        import slow_module  # noqa: F401
    return 2 * x


@equivalent(reference, on_mismatch, outlier_detector=False)
def double(x: np.ndarray) -> np.ndarray:
    return np.where(x == 3, 7, 2 * x)


STUCK = "stuck" in sys.argv
IMPORTS = "fork-import" in sys.argv


def child() -> None:
    """Eight calls, the fourth of them wrong; nothing stops the checker."""
    EquivalenceChecker.start(sample_probability=1.0)
    for n in range(8):
        double(np.full(3, float(n)))


def main(what: str) -> None:
    EquivalenceChecker.start(sample_probability=1.0)
    double(np.ones(3))
    if what in ("fork", "spawn"):
        process = multiprocessing.get_context(what).Process(target=child)
        process.start()
        process.join()
        print("child", process.exitcode, flush=True)
    if what == "bare-fork":
        stop = threading.Event()
        caller = threading.Thread(target=lambda: [double(np.ones(3)) for _ in iter(stop.is_set, True)])
        caller.start()  # another thread may hold any lock while this one forks
        pid = os.fork()
        if pid == 0:
            child()
            counted = EquivalenceChecker.stats().calls
            EquivalenceChecker.stop()
            print("child", counted, EquivalenceChecker.stats().checked, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        stop.set()
        caller.join()
    if what == "fork-import":
        while "slow_module" not in sys.modules:  # then the thread that checks is in the middle of importing it
            time.sleep(0.001)
        pid = os.fork()
        if pid == 0:
            import slow_module

            print(slow_module.LOADED, flush=True)
            double(np.full(3, 3.0))
            EquivalenceChecker.stop()
            os._exit(0)
        os.waitpid(pid, 0)
    double(np.full(3, 3.0))
    if what in ("exit", "stuck"):
        print("end", flush=True)
        return  # nothing stops the checker: the interpreter exits
    EquivalenceChecker.stop()
    stats = EquivalenceChecker.stats()
    print("parent", stats.checked == stats.calls, stats.mismatches, flush=True)


if __name__ == "__main__":
    if STUCK:
        import kcheck.monitor.checker

        kcheck.monitor.checker.AT_EXIT = 0.2
    main(sys.argv[1])
