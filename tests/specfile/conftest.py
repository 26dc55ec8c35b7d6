"""A small project to write specs in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.specfile import load_spec

SOFTMAX = """\
kcheck: 1
op: softmax
kernel: kernels/softmax.py:softmax
reference: references/softmax.py:softmax
dims: {M: 1..64, N: 1..2048}
inputs: {x: [M, N]}
outputs: {y: [M, N]}
launch: {args: [x, y], grid: [M], block: [256]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with a softmax kernel and its reference; the current folder is its root."""
    (tmp_path / "kcheck.yaml").touch()
    for folder in ("specs", "kernels", "references"):
        (tmp_path / folder).mkdir()
    (tmp_path / "kernels/softmax.py").write_text(
        "raise RuntimeError('validation must not import this')\n@cuda.jit\ndef softmax(x, y):\n    pass\n"
    )
    (tmp_path / "references/softmax.py").write_text("def softmax(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def softmax() -> str:
    """The text of a valid spec of the project."""
    return SOFTMAX


@pytest.fixture
def faults(project: Path) -> Callable[[str], list[str]]:
    """The faults of a spec's text, as printed; none if it is valid."""

    def load(text: str | bytes) -> list[str]:
        path = Path("specs/s.yaml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        try:
            load_spec(path)
        except SpecError as error:
            return [str(fault) for fault in error.faults]
        return []

    return load
