"""Lint the compiled kernel: metrics of its PTX and machine code, what the assembler allocates, patterns wanted and
unwanted."""

from kcheck.lint.advice import ADVICE
from kcheck.lint.check import UNCHECKED_SASS, check, unchecked
from kcheck.lint.measure import measure
from kcheck.lint.ptx_text import Entry, find_entry

__all__ = ["ADVICE", "UNCHECKED_SASS", "Entry", "check", "find_entry", "measure", "unchecked"]
