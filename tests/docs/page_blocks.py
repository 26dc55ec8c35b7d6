"""Run the Python blocks of a page in order, as one program: ``python tests/docs/page_blocks.py docs/python.md``.

Prints the line of the page at which a block fails.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path


def blocks(text: str, language: str = "python") -> list[tuple[int, str]]:
    """(line, text) of every fenced block of a language."""
    found: list[tuple[int, str]] = []
    inside = None
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if line.startswith("```"):
            inside = line[3:].strip() if inside is None else None
            if inside == language:
                found.append((number + 1, ""))
        elif inside == language:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def run(page: Path) -> int:
    """The number of blocks that ran; raises what a block raises."""
    names: dict[str, object] = {"__name__": "__page__"}
    found = blocks(page.read_text("utf-8"))
    for line, text in found:
        code = compile("\n" * (line - 1) + text, str(page), "exec")
        exec(code, names)
    return len(found)


if __name__ == "__main__":
    try:
        print(f"{run(Path(sys.argv[1]))} blocks ran")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
