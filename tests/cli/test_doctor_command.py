"""``kcheck doctor``: what is installed, what runs, and a fix for each problem."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from kcheck.cli import checkup
from kcheck.cli.main import main


@pytest.fixture
def inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project, with the current folder in it, a cache in it, and a terminal of 80 columns."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("KCHECK_CACHE_DIR", str(project / "cache"))
    monkeypatch.delenv("KCHECK_DEVICE", raising=False)
    return project


def rows(said: str) -> dict[str, tuple[str, str]]:
    """(status, value with its fix) by name."""
    found: dict[str, tuple[str, str]] = {}
    name = ""
    for line in said.splitlines():
        if line[:2] == "  " and line[2:3].strip():
            status, name, value = line[2:11].strip(), line[11:27].strip(), line[28:]
            found[name] = (status, value)
        elif line.startswith(" " * 11) and name:
            found[name] = (found[name][0], f"{found[name][1]} {line.strip()}")
    return found


def test_a_good_installation_has_no_problems(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, at most 80 columns."""
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    found = rows(said)
    assert found["numba-cuda"] == ("ok", metadata.version("numba-cuda"))
    assert found["cpu"] == ("ok", "available")
    assert found["chosen"][1].startswith(("cpu: there is no GPU", "gpu: a CUDA driver is available"))
    assert found["specs"] == ("ok", "5 in specs")
    assert "0 B" in found["cache"][1]
    assert max(map(len, said.splitlines())) <= 80
    assert said.endswith("no problems\n")


def test_versions_that_do_not_fit_are_an_error(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who needs which version, and the command that installs it; exit 2."""
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.99.0" if name == "numba-cuda" else real(name))
    assert main(["doctor"]) == 2
    status, value = rows(capsys.readouterr().out)["numba-cuda"]
    assert status == "error"
    assert "kcheck needs numba-cuda<0.31,>=0.30: pip install --upgrade 'kcheck[cu13]'" in value


@pytest.mark.parametrize(
    ("wheels", "status", "said"),
    [
        ({}, "error", "not installed → pip install 'kcheck[cu13]'"),
        ({"nvidia-nvvm": "13.1"}, "error", "without NVRTC, nvJitLink → pip install 'kcheck[cu13]'"),
        (
            {"nvidia-cuda-nvrtc-cu12": "12.9", "nvidia-nvvm": "13.1", "nvidia-nvjitlink": "13.1"},
            "warn",
            "keep one CUDA version: pip uninstall",
        ),
        (
            {"nvidia-cuda-nvrtc-cu12": "12.9", "nvidia-cuda-nvcc-cu12": "12.9", "nvidia-nvjitlink-cu12": "12.9"},
            "ok",
            "CUDA 12: ",
        ),
    ],
)
def test_the_wheels_of_the_compiler(
    monkeypatch: pytest.MonkeyPatch, wheels: dict[str, str], status: str, said: str
) -> None:
    """Missing ones and mixed ones are named."""
    monkeypatch.setattr(checkup, "_nvidia", lambda: wheels)
    (line,) = [line for line in checkup.versions() if line.name == "CUDA compiler"]
    assert line.status == status
    assert said in f"{line.value} → {line.fix}"


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.30.4", ">=0.30,<0.31", True),
        ("0.31.0", ">=0.30,<0.31", False),
        ("0.29", ">=0.30,<0.31", False),
        ("0.50.0", "<0.51,>=0.50.0dev0", True),
        ("2.0", "!=2.0", False),
        ("13.5", "==13.*", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, fits: bool) -> None:
    """Part by part: 0.9 is older than 0.30."""
    assert checkup.fits_requirement(version, wanted) is fits


def test_a_device_that_cannot_run_is_an_error(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the settings name it."""
    monkeypatch.setattr("kcheck.device.cuda.driver_answers", lambda: False)
    (inside / "kcheck.yaml").write_text("device: gpu\n")
    assert main(["doctor"]) == 2
    assert rows(capsys.readouterr().out)["chosen"] == (
        "error",
        "gpu: from the settings → set device: auto, or see `kcheck config`",
    )


def test_wrong_settings_are_shown_with_their_line(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the rest is checked all the same."""
    (inside / "kcheck.yaml").write_text("case: 3\n")
    assert main(["doctor"]) == 2
    found = rows(capsys.readouterr().out)
    assert found["settings"][1].startswith("kcheck.yaml:1:1: unknown key 'case'; did you mean 'cases'?")
    assert found["cpu"][0] == "ok"


def test_every_error_in_the_settings_is_shown(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each on its line, with one fix for all."""
    (inside / "kcheck.yaml").write_text("case: 3\njobs: -1\n")
    assert main(["doctor"]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "kcheck.yaml:1:1: unknown key 'case'" in out
    assert "kcheck.yaml:2:7: " in out
    assert out.count("→ fix the lines; `kcheck schema config` has every key") == 1
    assert "2 errors" in out


def test_outside_a_project_it_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning: kcheck itself can run."""
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert rows(capsys.readouterr().out)["root"][1].endswith("→ run `kcheck init`, or change to your project")


def test_the_git_hook(inside: Path) -> None:
    """None, configured only, installed."""

    def hook() -> checkup.CheckupLine:
        return next(line for line in checkup.project() if line.name == "git hook")

    assert hook().value.startswith("none")
    (inside / ".pre-commit-config.yaml").write_text("repos:\n- hooks:\n  - id: kcheck-run\n")
    assert hook().fix == "run `pre-commit install`"
    (inside / ".git/hooks").mkdir(parents=True)
    (inside / ".git/hooks/pre-commit").touch()
    assert hook().value == "pre-commit"


def test_the_size_of_a_cache_leaves_out_what_another_process_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run beside it may remove objects between the listing and the look at each."""
    for name in ("kept", "removed"):
        (tmp_path / name).write_bytes(bytes(5))
    look = Path.stat

    def stat(path: Path, **options: bool) -> object:
        if path.name == "removed":
            raise FileNotFoundError(path)
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert checkup.size_of(tmp_path) == "5 B"
