"""From a failing case to the smallest one that fails in the same way.

The kernel is run at every step; nothing is assumed of how failing depends on a size. ``order`` says which of two
cases is the simpler one, ``trials`` runs and remembers, ``sizes``, ``kinds`` and ``values`` propose, ``condition``
finds out when the kernel fails.
"""

from kcheck.minimize.minimize import MOST_RUNS, Minimized, Minimizer, Strategy

__all__ = ["MOST_RUNS", "Minimized", "Minimizer", "Strategy"]
