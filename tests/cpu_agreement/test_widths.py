"""One lane per vector and many leave the same bytes, in quick code and in the better one: the narrow code, which
LLVM optimizes in a way of its own, is the oracle of the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from device_child import ROOT, DeviceChild

HERE = Path(__file__).parent
CODES = [(1, False), (8, True), (16, True), (16, False), (32, True)]
"""Lanes per vector, whether quick."""
ENDS = [(1, False), (16, True), (16, False)]  # of kernels that take seconds to compile


def _rows() -> list[str]:
    """The names in the corpus, read off its text: importing it would bring numba.cuda into this process."""
    found = []
    for node in ast.parse((HERE / "corpus.py").read_text()).body:
        if isinstance(node, ast.FunctionDef) and any("row" in ast.unparse(d) for d in node.decorator_list):
            found.append(node.name)
    mathematics = ("exp", "log", "sin", "tanh", "erf", "floor", "sqrt")
    both = [f"{name}_{dtype}" for name in mathematics for dtype in ("float32", "float64")]
    return [*found, *both, "cos_float32", "log1p_float32", "lgamma_float32", "atan_float32", "fastmath"]


DAILY = ("matmul", "reduce_sum", "softmax")


def _specs() -> list[object]:
    """Every spec of the project; but for a few under ``make soak``, since each code is a compilation."""
    names = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
    return [name if name in DAILY else pytest.param(name, marks=pytest.mark.soak) for name in names]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device."""
    made = DeviceChild(HERE / "on_device.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=(pytest.mark.soak,) if n % 4 else ()) for n, name in enumerate(_rows())]
)
def test_kernels_agree(child: DeviceChild, name: str) -> None:
    """A kernel leaves the same bytes in every code, finds nothing, and does change its output."""
    narrow, *wide = child.ask({"row": name, "codes": CODES}, seconds=120)
    assert narrow["computed"]
    for code, result in zip(CODES, [narrow, *wide], strict=True):
        assert result["findings"] == []
        assert result["bytes"] == narrow["bytes"], (code, result["head"], narrow["head"])


def test_the_corpus_is_whole(child: DeviceChild) -> None:
    """Every kernel of the corpus is among the tests."""
    assert sorted(child.ask({"rows": True}, seconds=60)) == sorted(_rows())


@pytest.mark.slow
@pytest.mark.parametrize("name", _specs())
def test_specs_agree(child: DeviceChild, name: str) -> None:
    """A spec's cases leave the same bytes in every code, padding and guards included, unless they vary anyway."""
    varies = "deterministic: false" in (ROOT / f"specs/{name}.yaml").read_text("utf-8")
    results = child.ask({"spec": f"specs/{name}.yaml", "codes": ENDS, "cases": 5}, seconds=240)
    assert len(results) >= 5
    for label, (narrow, *wide) in results.items():
        for result in wide:
            assert result["findings"] == narrow["findings"] == [], label
            assert varies or result["bytes"] == narrow["bytes"], (label, result["head"], narrow["head"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("gelu", "matmul", "softmax")),  # specs, too
        *("row_sums", "attention", "histogram", "scan"),
    ],
)
def test_benchmarks_agree(child: DeviceChild, name: str) -> None:
    """What the benchmark measures is the same result in every code."""
    narrow, *wide = child.ask({"benchmark": name, "codes": ENDS}, seconds=240)
    assert narrow["computed"]
    for result in wide:
        assert result["findings"] == []
        assert result["bytes"] == narrow["bytes"], (result["head"], narrow["head"])
