"""How a spec is named: by its file, and an op of a Python file by ``file.py::op``."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

OP_MARK = "::"


def source_file(path: Path) -> tuple[Path, str]:
    """The file that a spec is in, and the op of ``file.py::op``; empty for a whole file."""
    file, mark, op = path.name.partition(OP_MARK)
    if mark and file.endswith(".py"):
        return path.with_name(file), op
    return path, ""


def file_name(path: str) -> str:
    """The file of a spec's path, as text: ``kernels/softmax.py`` of ``kernels/softmax.py::softmax``."""
    file, mark, _ = path.rpartition(OP_MARK)
    return file if mark and file.endswith(".py") else path


def names_op(path: str, op: str) -> bool:
    """Whether a spec's path shows the name of its op: ``specs/softmax.yaml``, ``kernels.py::softmax``."""
    return PurePosixPath(path.rpartition(OP_MARK)[2]).stem == op
