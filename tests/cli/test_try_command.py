"""``kcheck try``: the sanitizers on a kernel without a spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.cli.main import main
from kcheck.specfile import load_spec

KERNELS = """\
from numba import cuda


@cuda.jit
def scale(x, alpha, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = alpha * x[i]


@cuda.jit
def past_the_end(x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = x[i]


@cuda.jit
def rows(x, y):
    row = cuda.blockIdx.x
    y[row] = x[row, 0]


@cuda.jit
def hist(x, h):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(h, x[i] % 100, 1)
"""
TRY = ["try", "--device", "simulator", "--cases", "3"]


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of kernels that is in no project."""
    (tmp_path / "ops.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_kernel_alone_is_enough(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments, sizes and launch are read from its text and shown; the draft at the end is a spec."""
    assert main([*TRY, "ops.py:scale"]) == 0
    said = capsys.readouterr().out
    plan, _, draft = said.partition("The spec:\n\n")
    rows = [" ".join(line.split()) for line in plan.splitlines()]
    for row in ("x [n] float32 read", "y [n] float32 written", "n dim n", "n 1..300 default"):
        assert row in rows
    assert "grid [ceildiv(n, 128)] from the kernel's indexes" in rows
    assert "block [128] default: check it, or use --block" in rows
    assert "3 cases" in plan
    assert "Not checked: results." in plan
    (inside / "kcheck.yaml").touch()
    (inside / "references").mkdir()
    (inside / "references/scale.py").write_text("def scale(x, alpha):\n    return alpha * x\n")
    (inside / "s.yaml").write_text(draft)
    assert load_spec(Path("s.yaml")).op == "scale"


def test_a_stray_access_is_found_and_replays(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, and the line that runs the failing case alone is a `kcheck try`."""
    assert main([*TRY, "ops.py:past_the_end", "--dims", "N=100"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "memcheck" in said
    assert "kcheck try ops.py:past_the_end --dims N=100 --case-seed" in said
    seed = said.partition("--case-seed ")[2].split()[0]
    assert main([*TRY, "ops.py:past_the_end", "--dims", "N=100", "--case-seed", seed]) == 1
    assert "1 case" in capsys.readouterr().out


def test_the_options_come_before_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Names, sizes, dtypes, scalars, grid and block as given; the derived grid follows the new names."""
    arguments = ["--dims", "K=1..40", "--args", "x[K]:float64,alpha=0.5:float64,out[K]:float64,K:int32"]
    assert main([*TRY, "ops.py:scale", *arguments, "--block", "64"]) == 0
    said = capsys.readouterr().out
    for words in (
        "x [K] float64 read",
        "alpha [0.5] float64",
        "out [K] float64 written",
        "K dim K",
        "K 1..40 --dims",
        "grid [ceildiv(K, 64)]",
        "block [64] --block",
    ):
        assert words in " ".join(said.split())
    assert "args: [x, alpha, out, {K: int32}]" in said


def test_an_array_updated_in_place_takes_its_dtype_from_args() -> None:
    """The drafted output is the input's memory: it has the dtype of the input."""
    assert main([*TRY, "ops.py:hist", "--args", "x[N]:int32,h[100]:int32", "--dims", "N=1..20"]) == 0


def test_outputs_that_stay_unwritten_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """What a kernel without a spec must write is not known."""
    assert main([*TRY, "ops.py:rows", "--args", "x[M,4],y[N]", "--dims", "M=3,N=5", "--grid", "M"]) == 0
    assert "unwritten" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--args", "x[N]"], "--args has 1 argument, but scale takes 4: x, alpha, y, n"),
        (["--args", "x[N],alpha,y[N],N"], "--args: 'alpha' is neither an array, a scalar nor a dim of --dims"),
        (["--dims", "N"], "--dims: 'N' is not a dim; write M=1..64, M=128 or M=[1,2,5]"),
        (["--dims", "n=abc"], "--dims: unknown dim 'abc' in dim 'n'"),
        (["--block", "0"], "--block: '0' is not a number of threads"),
        (["--grid", "Q"], "unknown name 'Q' in grid"),
        (["-o", "ops.py"], "-o ops.py: the file already exists"),
    ],
)
def test_a_wrong_option_says_what_to_write(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit 2, one line, before anything runs."""
    assert main([*TRY, "ops.py:scale", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_the_draft_goes_to_a_file(inside: Path) -> None:
    """With -o."""
    assert main([*TRY, "ops.py:scale", "-o", "scale.yaml"]) == 0
    assert (inside / "scale.yaml").read_text().startswith("# Drafted from ops.py:scale.")
