"""Repeats a launch on the cpu device with the same parameters, without the library that launched it first."""

from __future__ import annotations

from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.interrupts import without_launch
from kcheck.device.modules import DriverError
from kcheck.driver.launch import RESULTS


def repeat(executor: Executor, launch: KernelLaunch) -> None:
    """Launch again. The caller has restored the contents of memory.

    Raises:
        DriverError: the kernel failed.
        BaseException: raised by a signal handler during the launch.
    """
    ending = executor.launch(launch)
    if ending is Ending.INTERRUPTED and executor.raised is not None:
        error, executor.raised = executor.raised, None
        raise without_launch(error)
    if ending is not Ending.FINISHED:
        raise DriverError("cuLaunchKernel", int(RESULTS[ending]))
