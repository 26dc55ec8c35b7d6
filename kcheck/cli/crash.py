"""The log of an internal error: what a bug report needs."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from kcheck.version import __version__

_PACKAGES = ("click", "jsonschema", "junit-xml", "ml_dtypes", "numba", "numba-cuda", "numpy", "pyyaml", "rich")


def write_log(error: BaseException, arguments: Sequence[str]) -> Path:
    """Write traceback, versions and command to ``.kcheck/`` in the current folder, or to the temporary folder.

    Raises:
        OSError: neither folder can be written.
    """
    text = _text(error, arguments)
    name = f"fault-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"
    here = Path(".kcheck")
    try:
        here.mkdir(exist_ok=True)
        log = here / name
        log.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        log = Path(tempfile.gettempdir()) / f"kcheck-{name}"
        log.write_text(text, encoding="utf-8", errors="backslashreplace")
    return log


def _text(error: BaseException, arguments: Sequence[str]) -> str:
    lines = [
        f"kcheck {__version__}",
        f"command: {shlex.join(['kcheck', *arguments])}",
        f"folder: {Path.cwd()}",
        f"python: {sys.version.splitlines()[0]}",
        f"platform: {platform.platform()}",
        *(f"{package}: {_version(package)}" for package in _PACKAGES),
        "",
        "".join(traceback.format_exception(error)),
    ]
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
