"""Processes that tests interrupt."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """As Popen, but SIGINT ends it: a shell's background jobs ignore SIGINT, and so does what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started gets SIG_DFL
    try:
        return subprocess.Popen(words, **options)
    finally:
        signal.signal(signal.SIGINT, before)
