"""Drafts for new users: a spec from a kernel's source, and a sample project.

Kernels are parsed, never imported.
"""

from kcheck.draft.sketch import Argument, Sketch, sketch
from kcheck.draft.spectext import default_sizes, guessed_values, op_name, reference_text, result_name, spec_text
from kcheck.draft.words import Words, apply

__all__ = [
    "Argument",
    "Sketch",
    "Words",
    "apply",
    "default_sizes",
    "guessed_values",
    "op_name",
    "reference_text",
    "result_name",
    "sketch",
    "spec_text",
]
