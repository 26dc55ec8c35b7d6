"""A page of checks: what was checked, what was found, whether that is right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Check: TypeAlias = tuple[str, str, bool]
"""What was checked, what was found, and whether that is right."""


def finish(head: str, found: Sequence[Check], page: Path | None) -> int:
    """Print a page, and write it if it has a file. Returns the exit code: 1 if something is not right."""
    rows = [f"| {what} | {result} | {'ok' if right else '**FAILED**'} |" for what, result, right in found]
    text = "\n".join([head.rstrip("\n"), "", "| check | result | |", "|---|---|---|", *rows, ""])
    print(text)
    if page is not None:
        page.write_text(text, "utf-8")
    return 0 if all(right for _, _, right in found) else 1
