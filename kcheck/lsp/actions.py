"""The commands of code lenses and code actions, and their command lines (docs/editor.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcheck.lsp.document import root_of

TITLES = {"kcheck.reproduce": "Reproduce", "kcheck.minimize": "Minimize", "kcheck.show": "Show inputs"}
"""The commands for a failure, with their titles in menus."""
COMMANDS = ("kcheck.run", *TITLES)

_OP = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BadArgument(ValueError):
    """An argument of a command does not match docs/editor.md; the message says what is wrong."""


def arguments(command: str, given: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The arguments of ``kcheck`` for a command, and the folder to run it in.

    Raises:
        BadArgument: an argument is missing or malformed.
    """
    file, op, seed = (given.get(name) or "" for name in ("file", "op", "seed"))
    if not isinstance(file, str) or not os.path.isabs(file):
        raise BadArgument(f"{command} needs file, an absolute path")
    if not isinstance(op, str) or (op and not _OP.fullmatch(op)):
        raise BadArgument(f"{command}: op must be the name of an op")
    if isinstance(seed, bool) or not re.fullmatch(r"[0-9]{0,20}", str(seed)):
        raise BadArgument(f"{command}: seed must be an integer, as text")
    root = root_of(Path(file))
    if command == "kcheck.run":
        spec = os.path.relpath(file, root) + (f"::{op}" if op and file.endswith(".py") else "")
        return [spec, *([f"--case-seed={seed}"] if seed else [])], root
    name = command.removeprefix("kcheck.")
    return [name, str(seed) or "last", *(["--op", op] if op else [])], root
