"""Modules in the order of their import."""

from __future__ import annotations

import sys


def imported_since(last: str) -> list[str]:
    """The names of the modules that were imported after one, in order; all of them if it is gone.

    Does not touch the others: in a forked process, to count a reference to an object copies its memory.
    """
    while True:
        names = []
        try:
            for name in reversed(sys.modules):
                if name == last:
                    break
                names.append(name)
        except RuntimeError:  # another thread has imported something
            continue
        return names[::-1]
