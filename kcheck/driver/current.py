"""Caches the context of each thread, so that numba-cuda does not ask the driver for it each time.

Before each launch, numba-cuda asks which context is current, and to which device it belongs. Each of these calls
goes from Python through C to the driver, which is Python again. There is only one device, and its only context is
the primary one. So a thread that has a context still has the one that it got before, unless that was released.
"""

from __future__ import annotations

import functools
import os
import threading
from functools import partial
from typing import Any

from kcheck.driver.after_import import patch_after_import
from kcheck.driver.machine import Machine


def patch_devices(machine: Machine) -> None:
    """Patch ``numba.cuda.cudadrv.devices`` when it is imported."""
    patch_after_import({"numba.cuda.cudadrv.devices": (partial(_patch, machine),)})


def _patch(machine: Machine, devices: Any) -> None:
    runtime = devices._Runtime
    plain = runtime._get_or_create_context_uncached
    known = threading.local()

    @functools.wraps(plain)
    def current(self: Any, devnum: Any) -> Any:
        found: tuple[int, Any] = getattr(known, "found", (0, None))
        process, context = found
        # A forked process must ask: numba-cuda then says that it cannot use the device.
        is_current = process == os.getpid() and machine.context_stack()
        if is_current and context.device.primary_context is context:
            context.prepare_for_use()
            return context
        context = plain(self, devnum)
        known.found = os.getpid(), context
        return context

    runtime._get_or_create_context_uncached = current
