"""Where a file defines the kernel or the function that a spec names. No user code is run."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kcheck.span import Span, as_typed
from kcheck.specfile.kinds.cudafile import read_cuda
from kcheck.specfile.kinds.text import CPP_SUFFIXES, read_text, without_comments
from kcheck.specfile.pythonfile import parse_python


def definition_place(root: str, path: str, name: str) -> Span | None:
    """The line that defines a function; None if the text of its file does not show it.

    Args:
        root: the folder of the project.
        path: the file, relative to it or absolute.
    """
    file = Path(root, path)
    try:
        line = _line(file, name.rpartition("::")[2])
    except (OSError, ValueError):
        return None
    return Span(as_typed(os.path.join(root, path)), line) if line else None


def _line(file: Path, name: str) -> int | None:
    if file.suffix == ".py":
        definition = parse_python(file, str(file)).definitions.get(name)
        return definition.line if definition is not None else None
    if file.suffix in CPP_SUFFIXES:
        kernel = read_cuda(file).kernels.get(name)
        return kernel.line if kernel is not None else None
    if file.suffix == ".ptx":
        text = without_comments(read_text(file, file.stat().st_size))
        entry = re.search(rf"\.entry\s+{re.escape(name)}(?![\w$])", text)
        return text.count("\n", 0, entry.start()) + 1 if entry is not None else None
    return None
