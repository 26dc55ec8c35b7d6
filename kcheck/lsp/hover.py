"""What a position in a spec means, and where the names there are defined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kcheck.generator.shapes import Shapes
from kcheck.lsp import files, names, schema
from kcheck.lsp.cursor import TextCursor, cursor_at, keys_of
from kcheck.model import Choices, OpSpec, Range
from kcheck.prover.kept import KeptProofs

_WORD = re.compile(r"[A-Za-z_]\w*")
_SHOWN_SIZES = 24


def hover(lines: Sequence[str], line: int, column: int, spec: OpSpec | None) -> str:
    """Markdown about a position, line and column from 0; empty if there is nothing to say.

    Args:
        spec: the last version of the spec without errors, for the sizes of dims.
    """
    cursor = cursor_at(lines, line, column)
    if cursor is None:
        return ""
    name = cursor.whole if cursor.at_key and not cursor.at_value else word_at(lines[line], column)
    dim = _is_dim(cursor, name, lines)
    if dim:
        return dim_text(name, spec)
    path = (*cursor.path, name) if cursor.at_key and not cursor.at_value else cursor.path
    if not path:
        return ""
    about = schema.description(path)
    if path in (("kernel",), ("launcher",)) and spec is not None:
        about += proofs_text(spec)
    title = ".".join(step for step in path if step is not None)
    value = schema.value_description(cursor.path, name) if cursor.at_value and name else ""
    lines_out = [f"**{title}**", about, f"`{name}`: {value}" if value else ""]
    return "\n\n".join(text for text in lines_out if text) if about else ""


def _is_dim(cursor: TextCursor, name: str, lines: Sequence[str]) -> bool:
    """Whether a word is a dim at this position: where it is declared, in an expression, or in an example."""
    if not name or name not in names.declared(lines)["dims"]:
        return False
    if cursor.path in (("dims",), ("examples", None, "dims")):
        return True
    return any(
        known == name and what == "dim" for known, what in names.fitting(cursor.path, names.declared(lines))
    )


def dim_text(name: str, spec: OpSpec | None) -> str:
    """Markdown about a dim: its domain, and the sizes that cases are drawn around."""
    if spec is None or name not in spec.dims:
        return f"**{name}**: a dim. kcheck lists its sizes here when the spec has no errors."
    domain = spec.dims[name].domain
    if isinstance(domain, Choices):
        return f"**{name}**: one of {', '.join(map(str, domain.values))}"
    if not isinstance(domain, Range):
        return f"**{name}** = `{domain}`, derived from other dims"
    sizes = sorted(Shapes(spec).boundaries[name])
    if len(sizes) > domain.high - domain.low:
        return f"**{name}**: {domain.low}..{domain.high}\n\nCases take each of these sizes."
    shown = ", ".join(map(str, sizes[:_SHOWN_SIZES])) + (", ..." if len(sizes) > _SHOWN_SIZES else "")
    return (
        f"**{name}**: {domain.low}..{domain.high}\n\nBoundary sizes: {shown}\n\n"
        "Cases take these, and primes, powers of two and random sizes of the range."
    )


def proofs_text(spec: OpSpec) -> str:
    """Markdown about what `kcheck prove` decided about the kernel as it is now; empty if that is not known."""
    rows = []
    for proof in KeptProofs().recorded(spec):
        why = proof.finding or next((reason.text for reason in proof.reasons), "")
        rows.append(f"- {proof.check}: {proof.word}" + (f" ({why})" if why else ""))
    return "\n\nFor all sizes:\n\n" + "\n".join(rows) if rows else ""


def definition(path: Path, lines: Sequence[str], line: int, column: int, root: Path) -> files.DefinedAt | None:
    """Where the file, function or name at a place is defined; line and column from 0."""
    cursor = cursor_at(lines, line, column)
    if cursor is None:
        return None
    if cursor.at_key and not cursor.at_value:
        value = lines[line].partition(":")[2].partition(" #")[0].strip()
        named = (*cursor.path, cursor.whole)
        return files.target(root, value) if files.suffixes(named) and value else None
    if files.suffixes(cursor.path):
        return files.target(root, cursor.whole)
    name = word_at(lines[line], column)
    declared = names.declared(lines)
    fits = {what for known, what in names.fitting(cursor.path, declared) if known == name}
    for section, what in names.SECTIONS.items():
        if what in fits and name in keys_of(lines, section):
            return files.DefinedAt(path, declared[section][name])
    return None


def word_at(text: str, column: int) -> str:
    """The name at a column, from 0; empty if there is none."""
    return next((word[0] for word in _WORD.finditer(text) if word.start() <= column <= word.end()), "")
