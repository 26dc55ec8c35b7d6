"""CUDA extensions of candidates: built by a process that may start compilers, before any case runs.

::

    grader ── the candidate ──> building process: imports it and calls it once, which runs nvcc
           <─ libraries ──────
           ── libraries, to read ──> candidate's process: imports it; each extension is there already

Neither process has the reference, the expected values or the seed. In the call, launches do nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcheck.model import Finding, Span
from kcheck.torch_cuda.toolkit import find_toolkit

CPP_EXTENSION = "torch.utils.cpp_extension"
"""The module that :func:`build_below` and :func:`import_from` change."""
_WORD = b"cpp_extension"
_AROUND = 5
_ERROR = re.compile(r"\berror:|undefined reference")
_MOST_BYTES = 4 << 20


def builds_extensions(files: Sequence[str]) -> bool:
    """Whether a candidate's text mentions PyTorch's extensions."""
    for path in files:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if _WORD in file.read(_MOST_BYTES):
                return True
    return False


def in_candidate(finding: Finding, path: str) -> Finding:
    """A finding in the text that a candidate has given to ``load_inline``, at the candidate's line instead of that
    of the file that PyTorch has written, which is gone later."""
    place = finding.place
    if place is None or not os.path.abspath(place.file).startswith(os.path.abspath("extensions") + os.sep):
        return finding
    try:
        written, own = (Path(each).read_text().splitlines() for each in (place.file, path))
    except OSError:
        return finding
    at = place.line - 1
    if not 0 <= at < len(written):
        return finding

    def alike(n: int) -> int:
        """How many lines around are equal: the text of a line alone may occur twice."""
        return sum(
            own[n + step].strip() == written[at + step].strip()
            for step in range(-_AROUND, _AROUND + 1)
            if 0 <= n + step < len(own) and 0 <= at + step < len(written)
        )

    same = [n for n, text in enumerate(own) if text.strip() == written[at].strip()]
    return replace(finding, place=Span(path, max(same, key=alike) + 1)) if same else finding


def compiler_folders() -> list[str]:
    """What compilers read, beyond what Python does."""
    toolkit = find_toolkit(os.environ)
    return ["/etc/alternatives", *([str(toolkit.home)] if toolkit else [])]


def build_below(folder: Path) -> dict[str, str]:
    """In the building process: put all extensions below a folder. Returns the reasons why extensions are not
    built, by name: candidates often catch the exception, and use PyTorch's operators instead."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)
    module: Any = importlib.import_module(CPP_EXTENSION)
    plain, failed = module._jit_compile, dict[str, str]()

    @functools.wraps(plain)
    def compiled(name: str, *given: Any, **options: Any) -> Any:
        try:
            return plain(name, *given, **options)
        except Exception as error:
            failed[name] = _reason(str(error)).replace(f"{folder}{os.sep}", "")
            raise

    module._jit_compile = compiled
    return failed


def _reason(text: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")


def libraries_below(folder: Path) -> dict[str, bytes]:
    """The libraries that were built, by the name of their extension."""
    paths = [path for path in sorted(folder.glob("*/*.so")) if not path.is_symlink()]
    return {path.parent.name: path.read_bytes() for path in paths}


def import_from(folder: Path) -> None:
    """In a candidate's process, which cannot start a compiler: import the libraries in a folder instead of
    building extensions."""
    module: Any = importlib.import_module(CPP_EXTENSION)
    plain = module._import_module_from_library
    os.environ["TORCH_EXTENSIONS_DIR"] = os.path.abspath("extensions")  # for the sources, which are written again

    def import_module(name: str, path: str, is_python_module: bool) -> Any:
        built = folder / os.path.basename(path)
        library = built / f"{name}.so"
        if not library.exists():
            raise RuntimeError(
                f"the extension {name} was not built when kcheck imported the candidate and called it once"
            )
        return plain(name, str(built), is_python_module)

    module._write_ninja_file_and_build_library = lambda *_, **__: None
    module._import_module_from_library = import_module
