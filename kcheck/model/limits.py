"""Defaults that several commands share."""

TIMEOUT = 20.0
"""The default time limit for a case, in seconds (``--timeout``)."""
