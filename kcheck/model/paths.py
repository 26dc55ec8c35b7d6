"""Paths of specs: a file, or ``file.py::op`` for an op that a Python file declares."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

OP_MARK = "::"


def source_file(path: Path) -> tuple[Path, str]:
    """The file of a spec, and the op in ``file.py::op``; the op is empty if the path is only a file."""
    file, mark, op = path.name.partition(OP_MARK)
    if mark and file.endswith(".py"):
        return path.with_name(file), op
    return path, ""


def file_name(path: str) -> str:
    """The file in a spec's path, as text: ``kernels/softmax.py`` for ``kernels/softmax.py::softmax``."""
    file, mark, _ = path.rpartition(OP_MARK)
    return file if mark and file.endswith(".py") else path


def names_op(path: str, op: str) -> bool:
    """Whether a spec's path contains the name of its op: ``specs/softmax.yaml``, ``kernels.py::softmax``."""
    return PurePosixPath(path.rpartition(OP_MARK)[2]).stem == op
