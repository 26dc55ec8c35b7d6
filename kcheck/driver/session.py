"""A process under ``kcheck exec``: the device installed as the environment says, findings told as they come.

======================  ===================================================================================
``KCHECK_EXEC``         the file to which each finding is appended, as a line of JSON
``KCHECK_CC``           the compute capability
``KCHECK_TIMEOUT``      seconds that a launch may take
======================  ===================================================================================
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from kcheck.driver.install import Installed, install, settings
from kcheck.model import Finding, Index3


def environment(base: dict[str, str], findings: str, cc: str | None, timeout: float | None) -> dict[str, str]:
    """The environment of a process in which any numba.cuda program runs on the cpu device.

    Args:
        base: that of the caller.
        findings: the file that findings are appended to.
        cc: a compute capability such as ``8.0``; None leaves ``base``'s.
        timeout: seconds that a launch may take.
    """
    changed = dict(base)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    changed["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, base.get("PYTHONPATH"))))
    changed["KCHECK_EXEC"] = findings
    changed.pop("NUMBA_ENABLE_CUDASIM", None)  # the simulator would take numba.cuda's place
    if cc is not None:
        changed["KCHECK_CC"] = cc
    if timeout is not None:
        changed["KCHECK_TIMEOUT"] = str(timeout)
    return changed


def start(variables: Mapping[str, str]) -> Installed:
    """Install the device in this process.

    Raises:
        DeviceUnavailable: it cannot be installed, or the environment asks for what is no compute capability.
    """
    path = variables["KCHECK_EXEC"]

    def report(finding: Finding) -> None:
        print(f"kcheck: {told(finding)}", file=sys.stderr, flush=True)
        line = json.dumps({"rule": finding.rule, "severity": finding.severity, "text": told(finding)}) + "\n"
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)  # one write of one line: processes may append at once

    def write(text: bytes) -> None:
        sys.stdout.write(text.decode(errors="replace"))

    installed = install(settings(variables), report, write)
    if limit := variables.get("KCHECK_TIMEOUT"):
        installed.machine.executor.limit = float(limit)
    return installed


def told(finding: Finding) -> str:
    """A finding on one line: ``script.py:12:1: memcheck: gemm reads 4 bytes ... (block 0, thread 64)``."""
    where = f"{finding.place}: " if finding.place else ""
    subject = f"{finding.kernel} " if finding.kernel else ""
    parts = []
    if finding.block is not None:
        parts.append(f"block {_told3(finding.block)}")
    if finding.thread is not None:
        parts.append(f"thread {_told3(finding.thread)}")
    if finding.count > 1:
        parts.append(f"{finding.count} times")
    who = f" ({', '.join(parts)})" if parts else ""
    mend = f"; {finding.mend}" if finding.mend else ""
    return f"{where}{finding.rule}: {subject}{finding.message}{who}{mend}"


def _told3(index: Index3) -> str:
    return str(index[0]) if index[1:] == (0, 0) else f"({index[0]}, {index[1]}, {index[2]})"
