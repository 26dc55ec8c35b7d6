"""``kcheck config``, and which value wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.cli.main import main


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of whoever runs the tests."""
    for name in ("PROFILE", "DEVICE", "CASES", "TIMEOUT", "SANITIZE"):
        monkeypatch.delenv(f"KCHECK_{name}", raising=False)


@pytest.fixture
def inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project, with the current folder in it."""
    monkeypatch.chdir(project)
    return project


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str, str]]:
    """(value, source) by setting, as the table shows them."""
    assert main(["config", *arguments]) == 0
    table = capsys.readouterr().out.partition("\n\n")[2]
    rows = [line.split(maxsplit=1) for line in table.splitlines()[1:]]
    return {key: tuple(part.strip() for part in rest.split("  ", 1)) for key, rest in rows}


def test_each_value_names_its_source(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Variable before profile, profile before file, file before default."""
    (inside / "kcheck.yaml").write_text(
        "cases: 12\ntimeout: 9\nsanitize: {racecheck: warn}\nprofiles: {ci: {timeout: 5}}\n"
    )
    found = shown(capsys, "--profile", "ci")
    assert found["device"] == ("auto", "default")
    assert found["cases"] == ("12", "kcheck.yaml:1")
    assert found["timeout"] == ("5 s", "profile ci (kcheck.yaml:4)")
    assert found["sanitize.racecheck"] == ("warn", "kcheck.yaml:3")
    monkeypatch.setenv("KCHECK_CASES", "3")
    monkeypatch.setenv("KCHECK_SANITIZE", "racecheck=off,overflow")
    monkeypatch.setenv("KCHECK_PROFILE", "nightly")
    found = shown(capsys)
    assert found["cases"] == ("3", "KCHECK_CASES")
    assert found["sanitize.racecheck"] == ("off", "KCHECK_SANITIZE")
    assert found["sanitize.overflow"] == ("error", "KCHECK_SANITIZE")
    assert found["sanitize.memcheck"] == ("error", "profile nightly")


def test_the_table_fits_80_columns(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the longest of the built-in profiles."""
    assert main(["config", "--profile", "nightly"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[1:])) <= 80  # the first line has the path of the project


def test_json_has_the_same(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts: values as values."""
    (inside / "kcheck.yaml").write_text("timeout: 0\n")
    assert main(["config", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["timeout"] == {"value": None, "from": "kcheck.yaml:1"}
    assert found["settings"]["cases"] == {"value": 100, "from": "default"}
    assert found["file"] == "kcheck.yaml"


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("KCHECK_CASES", "many", "KCHECK_CASES: 'many' is not an integer"),
        ("KCHECK_DEVICE", "tpu", "KCHECK_DEVICE: 'tpu' is not one of"),
        (
            "KCHECK_SANITIZE",
            "racechek",
            "KCHECK_SANITIZE: unknown sanitizer 'racechek'; did you mean 'racecheck'?",
        ),
        ("KCHECK_PROFILE", "nightli", "unknown profile 'nightli'; did you mean 'nightly'?"),
    ],
)
def test_a_wrong_variable_is_named(
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    text: str,
    said: str,
) -> None:
    """Exit 2, and the variable's name."""
    monkeypatch.setenv(variable, text)
    assert main(["config"]) == 2
    assert said in capsys.readouterr().err


COMMANDS = [
    ["run"],
    ["validate"],
    ["config"],
    ["cases", "specs/good.yaml"],
    ["lint"],
    ["calibrate", "specs"],
    ["baseline", "save", "b"],
    ["reproduce", "1", "--op", "good"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[0])
def test_every_command_refuses_an_unknown_key(
    inside: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Once, with its place and the nearest key."""
    (inside / "kcheck.yaml").write_text("case: 3\n")
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said == "kcheck.yaml:1:1: unknown key 'case'; did you mean 'cases'?\n"


def ran(kcheck: Kcheck, *arguments: str, **environment: str) -> dict:
    """The JSON report of a run of specs/good.yaml, of which the spec itself says nothing about cases."""
    done = kcheck("run", *arguments, "--device", "simulator", "--format", "json", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_run_follows_the_order(kcheck: Kcheck, project: Path) -> None:
    """A variable comes before the spec, the spec before the profile; the profile decides the rest."""
    (project / "kcheck.yaml").write_text("profiles: {p: {cases: 1, sanitize: {overflow: 'off'}}}\n")
    good = project / "specs/good.yaml"
    (project / "specs/loud.yaml").unlink()
    report = ran(kcheck, "--profile", "p", "specs/good.yaml")
    assert len(report["specs"][0]["cases"]) == 2, "the spec's own count"
    assert "--profile p" in report["specs"][0]["cases"][0]["replay"]
    assert "overflow" not in json.dumps(report["specs"][0].get("sanitize"))
    (note,) = (note for note in report["specs"][0]["notes"] if "profile" in note)
    assert note == "2 cases, as the spec says, instead of the 1 of profile p; --cases 1 overrides both"
    good.write_text(good.read_text().replace("cases: {count: 2}\n", ""))
    assert len(ran(kcheck, "--profile", "p")["specs"][0]["cases"]) == 1
    assert len(ran(kcheck, "--profile", "p", KCHECK_CASES="3")["specs"][0]["cases"]) == 3
