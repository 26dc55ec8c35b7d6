"""Ranges that do not fit in memory: ordinary cases stay below ``cases: {memory: ...}``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.generator import plan
from kcheck.generator.room import Room
from kcheck.model import OpSpec
from kcheck.specfile import load_spec
from kcheck.symbolic import Solver

KERNEL = """
from numba import cuda

@cuda.jit
def k(x, y):
    y[0, 0] = x[0, 0]
"""
SPEC = """
kcheck: 1
op: k
kernel: k.py:k
reference: none
dims: {dims}
constraints: {constraints}
dtypes: [float32, float64]
inputs: {{x: [M, N]}}
outputs: {{y: [M, N]}}
launch: {{args: [x, y], grid: [1], block: [96]}}
sanitize: {{unwritten: off}}
cases: {{count: 60, memory: {memory}}}
"""


def spec_of(tmp_path: Path, dims: str, constraints: str = "[]", memory: str = "16MB", more: str = "") -> OpSpec:
    """A spec of two float arrays of M times N elements."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "k.py").write_text(KERNEL)
    file = tmp_path / "k.yaml"
    file.write_text(SPEC.format(dims=dims, constraints=constraints, memory=memory) + more)
    return load_spec(file)


def test_every_dim_meets_its_small_sizes_its_tiles_and_its_largest(tmp_path: Path) -> None:
    """The largest size is that which fits with the others small; no case is larger than the memory."""
    spec = spec_of(tmp_path, "{M: 1..3_000_000_000, N: {range: 1..1_099_511_627_776, tile: 40}}")
    cases = plan(spec, count=60, master=7)
    room = Room(spec, Solver(spec.dims, spec.constraints))
    assert all(room.fits(case.dims) for case in cases)
    for name in ("M", "N"):
        drawn = {case.dims[name] for case in cases}
        assert {1, 2, 95, 96, 97, 1_000_000} <= drawn, sorted(drawn)
    assert {39, 40, 41} <= {case.dims["N"] for case in cases}


def test_constraints_hold_in_cases_that_were_made_smaller(tmp_path: Path) -> None:
    """``N % 32 == 0`` too."""
    spec = spec_of(tmp_path, "{M: 1..3_000_000, N: 32..3_000_000}", "[N % 32 == 0, M <= N]")
    room = Room(spec, Solver(spec.dims, spec.constraints))
    cases = plan(spec, count=60, master=7)
    assert all(case.dims["N"] % 32 == 0 and case.dims["M"] <= case.dims["N"] for case in cases)
    assert all(room.fits(case.dims) for case in cases)
    assert max(case.dims["N"] for case in cases) > 900_000


def test_the_same_seeds_give_the_same_cases_where_everything_fits(tmp_path: Path) -> None:
    """The memory decides nothing then."""
    small = spec_of(tmp_path, "{M: 1..40, N: 1..200}")
    large = spec_of(tmp_path, "{M: 1..40, N: 1..200}", memory="10GB")
    assert [case.dims for case in plan(small, count=30, master=1)] == [
        case.dims for case in plan(large, count=30, master=1)
    ]


@pytest.mark.parametrize(
    ("dims", "memory", "message"),
    [
        (
            "{M: 1..1_099_511_627_777, N: [1]}",
            "16MB",
            "this size is too large; the limit is 1099511627776 elements",
        ),
        ("{M: [1], N: [1]}", "1KB", "this is not a size for the arrays of a case; write a size from 1MB to 10TB"),
        ("{M: [1], N: [1]}", "lots", "size such as 512MB"),
    ],
)
def test_bad_input(dims: str, memory: str, message: str, tmp_path: Path) -> None:
    """One clear message."""
    with pytest.raises(SpecError, match=message):
        spec_of(tmp_path, dims, memory=memory)


def test_without_any_size_that_fits_there_is_one_clear_message(tmp_path: Path) -> None:
    """It says what to write. With huge cases, these are the only ones."""
    none = spec_of(tmp_path, "{M: [4096], N: [4096]}", more="huge: off\n")
    message = r"found no sizes whose arrays fit in 16 MB; raise 'memory' in cases, as in cases: \{memory: 1GB\}"
    with pytest.raises(SpecError, match=message):
        plan(none, count=5, master=0)
    some = spec_of(tmp_path, "{M: [4096], N: [4096]}")
    assert [case.label for case in plan(some, count=5, master=0, huge=True)] == ["huge_0"]
