"""A process under ``kcheck exec``: the device is installed with the environment's settings, and findings are
reported as they occur.

======================  ===================================================================================
``KCHECK_EXEC``         the file to which each finding is appended, as a line of JSON
``KCHECK_CC``           the compute capability
``KCHECK_TIMEOUT``      seconds that a launch may take
``KCHECK_SANITIZE``     levels of sanitizers, as ``racecheck=error,memcheck=off``
``KCHECK_PYTHON``       the Python that runs kcheck, for the message if another Python lacks it
======================  ===================================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.sanitizers import checks
from kcheck.driver.after_import import patch_after_import
from kcheck.driver.finding_log import FindingLog
from kcheck.driver.install import Installed, install, settings
from kcheck.driver.program_cache import keeping
from kcheck.driver.uncaught import explain_uncaught, ignore_advice
from kcheck.model import Level, as_set, level_word


def environment(
    base: dict[str, str],
    findings: str,
    cc: str | None,
    timeout: float | None,
    sanitize: Mapping[str, Level] = MappingProxyType({}),
) -> dict[str, str]:
    """The environment of a process in which any numba.cuda program runs on the cpu device.

    Args:
        base: the caller's environment.
        findings: the file that findings are appended to, in its own folder.
        cc: a compute capability such as ``8.0``; None keeps that of ``base``.
        timeout: seconds that a launch may take.
        sanitize: levels by sanitizer. Default: memcheck and synccheck are errors, the others off.
    """
    changed = dict(base)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    changed["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, base.get("PYTHONPATH"))))
    changed["KCHECK_EXEC"] = findings
    changed["KCHECK_PYTHON"] = sys.executable
    changed.pop("NUMBA_ENABLE_CUDASIM", None)  # the simulator would replace numba.cuda
    if cc is not None:
        changed["KCHECK_CC"] = cc
    if timeout is not None:
        changed["KCHECK_TIMEOUT"] = str(timeout)
    # PyTorch on the cpu device: a tensor of 64 MB is in 32 pages, not in 16,384, each of which is a page fault.
    changed.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    changed["KCHECK_SANITIZE"] = ",".join(level_word(name, level) for name, level in sanitize.items())
    return changed


def read_levels(text: str) -> dict[str, Level]:
    """``racecheck=error,memcheck=off`` as a mapping; a name alone is at the default level, error."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name: as_set(cast(Level, level)) if level else "error" for name, _, level in pairs}


_started: list[Installed] = []


def mark_of_use(findings: str) -> str:
    """The file that exists if a process has installed the device.

    Args:
        findings: the file of the findings.
    """
    return f"{findings}.used"


def what_is_absent(findings: str) -> str:
    """What to install for the first process that did not find Numba; empty if there was no such process.

    Args:
        findings: the file of the findings.
    """
    try:
        with open(f"{findings}.absent", encoding="utf-8") as file:
            return file.readline().rstrip("\n")
    except FileNotFoundError:
        return ""


def start(variables: Mapping[str, str]) -> Installed:
    """Install the device in this process; a second call returns the same one.

    Raises:
        DeviceUnavailable: it cannot be installed, or ``KCHECK_CC`` is not a compute capability.
    """
    if _started:
        return _started[0]
    levels = read_levels(variables.get("KCHECK_SANITIZE", ""))
    log = FindingLog(variables["KCHECK_EXEC"], levels, sys.stderr)
    with open(mark_of_use(variables["KCHECK_EXEC"]), "w"):
        pass

    def write(text: bytes) -> None:
        sys.stdout.write(text.decode(errors="replace"))

    chosen = settings(variables)
    installed = install(chosen, log.report, write)
    patch_after_import({"numba.cuda.dispatcher": [keeping(ObjectCache(chosen.cache / "programs"))]})
    installed.machine.executor.checks = checks(name for name, level in levels.items() if level != "off")
    if limit := variables.get("KCHECK_TIMEOUT"):
        installed.machine.executor.limit = float(limit)
    explain_uncaught(log, sys.stderr)
    ignore_advice()
    _started.append(installed)
    return installed
