"""``python -m kcheck``, and the entry point of the ``kcheck`` command."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from kcheck.cli.main import main

__all__ = ["main", "process"]


def process() -> NoReturn:
    """Run the command and end the process with its exit code."""
    code = main()
    if "numba" in sys.modules and os.name == "posix":
        from kcheck.interpreter import leave

        leave(code)
    sys.exit(code)


if __name__ == "__main__":
    process()
