"""Commands without paths find the specs of the project, from any folder of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.cli.main import main


@pytest.mark.parametrize("folder", [".", "specs", "kernels", "specs/buggy"])
def test_validate_without_paths_checks_the_whole_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """All specs of the spec folders, from the root and from below it."""
    monkeypatch.chdir(project / folder)
    assert main(["validate"]) == 0
    assert capsys.readouterr().out == "2 specs valid\n"


@pytest.mark.parametrize("folder", ["specs", "kernels"])
def test_run_without_paths_finds_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """``kcheck run`` inside specs/ runs the specs of the project."""
    monkeypatch.chdir(project / folder)
    assert main(["run", "--device", "simulator", "--cases", "1", "-t", "clean"]) == 0
    assert "2 specs passed" in capsys.readouterr().out


def test_spec_folders_are_those_of_the_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several folders all; a kernel file stands for the specs in them that use it."""
    (project / "kcheck.yaml").write_text("specs: [specs/buggy, more]\n")
    (project / "more").mkdir()
    (project / "specs/good.yaml").rename(project / "more/good.yaml")
    monkeypatch.chdir(project)
    assert main(["validate"]) == 0
    assert main(["validate", "kernels/k.py"]) == 0
    assert capsys.readouterr().out == "2 specs valid\n" * 2


def test_commands_of_the_store_name_what_is_missing_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what only looks: ``kcheck doctor``."""
    monkeypatch.chdir(tmp_path)
    for arguments in (["failures"], ["runs"], ["show", "last"], ["diff", "a"], ["doctor"]):
        main(arguments)
        said = capsys.readouterr()
        words = " ".join((said.out + said.err).split())
        assert "no project found: neither this folder nor a parent folder has" in words


EMPTY = [["run"], ["validate"], ["lint"], ["baseline", "save", "b"]]


@pytest.mark.parametrize("arguments", EMPTY, ids=lambda words: words[0])
def test_every_command_says_the_same_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """What is missing, and the two ways on: make a project, or name the specs."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert (
        "no project found: neither this folder nor a parent folder has kcheck.yaml, pyproject.toml or .git" in said
    )
    assert "run `kcheck init`, or name the specs: kcheck " in said
    (tmp_path / "kcheck.yaml").touch()
    assert main(arguments) == 2
    assert "there is no folder 'specs'; run `kcheck init`" in capsys.readouterr().err
