"""Defaults that several commands share."""

TIMEOUT = 20.0
"""Seconds that a case may take (``--timeout``) unless the user asks for another limit."""
