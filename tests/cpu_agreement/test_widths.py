"""One lane per vector and many leave the same bytes: the narrow code is the oracle of the wide one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from device_child import ROOT, DeviceChild

HERE = Path(__file__).parent
WIDTHS = [1, 8, 16, 32]
ENDS = [1, 16]  # of kernels that take seconds to compile


def _rows() -> list[str]:
    """The names in the corpus, read off its text: importing it would bring numba.cuda into this process."""
    found = []
    for node in ast.parse((HERE / "corpus.py").read_text()).body:
        if isinstance(node, ast.FunctionDef) and any("row" in ast.unparse(d) for d in node.decorator_list):
            found.append(node.name)
    mathematics = ("exp", "log", "sin", "tanh", "erf", "floor", "sqrt")
    both = [f"{name}_{dtype}" for name in mathematics for dtype in ("float32", "float64")]
    return [*found, *both, "cos_float32", "log1p_float32", "lgamma_float32", "atan_float32", "fastmath"]


DAILY = ("gelu", "matmul", "reduce_sum", "rmsnorm", "softmax")


def _specs() -> list[object]:
    """Every spec of the project; but for a few under ``make soak``, since two widths are two compilations."""
    names = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
    return [name if name in DAILY else pytest.param(name, marks=pytest.mark.soak) for name in names]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device."""
    made = DeviceChild(HERE / "on_device.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=(pytest.mark.soak,) if n % 2 else ()) for n, name in enumerate(_rows())]
)
def test_kernels_agree(child: DeviceChild, name: str) -> None:
    """A kernel leaves the same bytes at every width, finds nothing, and does change its output."""
    narrow, *wide = child.ask({"row": name, "widths": WIDTHS}, seconds=120)
    assert narrow["computed"]
    for width, result in zip(WIDTHS, [narrow, *wide], strict=True):
        assert result["findings"] == []
        assert result["bytes"] == narrow["bytes"], (width, result["head"], narrow["head"])


def test_the_corpus_is_whole(child: DeviceChild) -> None:
    """Every kernel of the corpus is among the tests."""
    assert sorted(child.ask({"rows": True}, seconds=60)) == sorted(_rows())


@pytest.mark.slow
@pytest.mark.parametrize("name", _specs())
def test_specs_agree(child: DeviceChild, name: str) -> None:
    """A spec's cases leave the same bytes at every width, padding and guards included."""
    results = child.ask({"spec": f"specs/{name}.yaml", "widths": ENDS, "cases": 5}, seconds=240)
    assert len(results) >= 5
    for label, (narrow, *wide) in results.items():
        for result in wide:
            assert result["findings"] == narrow["findings"] == [], label
            assert result["bytes"] == narrow["bytes"], (label, result["head"], narrow["head"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", "softmax", "matmul", "row_sums", "attention", "histogram", "scan"])
def test_benchmarks_agree(child: DeviceChild, name: str) -> None:
    """What the benchmark measures is the same result at every width."""
    narrow, *wide = child.ask({"benchmark": name, "widths": ENDS}, seconds=240)
    assert narrow["computed"]
    for result in wide:
        assert result["findings"] == []
        assert result["bytes"] == narrow["bytes"], (result["head"], narrow["head"])
