"""From a failing case to the smallest one that fails in the same way.

The kernel is run at every step; nothing is assumed about how failures depend on sizes. ``order`` defines which of
two cases is simpler, ``trials`` runs cases and remembers the results, ``sizes``, ``kinds`` and ``values`` propose
simpler cases, and ``condition`` finds when the kernel fails.
"""

from kcheck.minimizer.minimize import MOST_RUNS, Minimized, Minimizer, Strategy

__all__ = ["MOST_RUNS", "Minimized", "Minimizer", "Strategy"]
