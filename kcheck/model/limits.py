"""Defaults that several commands share."""

TIMEOUT = 20.0
"""The default time limit for a case, in seconds (``--timeout``)."""

MOST_TIMEOUTS = 3
"""After this many cases of a spec that hit the time limit, its other cases are skipped: they may not end, too.
Smaller ones have run before (:mod:`kcheck.runner.turns`)."""

FIRST_CALL = 300.0
"""How many seconds a call of a function may take if a framework may compile for it."""
