"""Lint the compiled kernel: metrics of its PTX, what the assembler allocates, patterns wanted and unwanted."""

from kcheck.lint.advice import ADVICE
from kcheck.lint.check import check
from kcheck.lint.measure import measure
from kcheck.lint.ptx_text import Entry, find_entry

__all__ = ["ADVICE", "Entry", "check", "find_entry", "measure"]
