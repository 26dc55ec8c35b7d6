"""``python -m kcheck``, and what the ``kcheck`` command calls."""

from __future__ import annotations

import sys

from kcheck.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
