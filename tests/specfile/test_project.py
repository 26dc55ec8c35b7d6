"""The settings of a project: where they may stand, which value wins, how a mistake is reported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kcheck.errors import SpecError, UserError
from kcheck.model import SANITIZERS
from kcheck.model.baseline import Limit
from kcheck.specfile import load_spec, schema_text
from kcheck.specfile.project import BUILT_IN, FILE, SCHEMA, read_project


def settings(root: Path, text: str, profile: str = "", file: str = FILE):
    """The settings of a project whose file holds ``text``."""
    (root / file).write_text(text)
    return read_project(root).settings(profile)


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    """It marks the project root; every value has its default."""
    found = settings(tmp_path, text)
    assert (found.specs, found.device, found.cases, found.timeout) == (("specs",), "auto", 100, 20.0)
    assert found.sanitize == SANITIZERS
    assert found.targets == ("sm_80",)
    assert found.source_of("cases") == "default"


WHOLE = """\
specs: [specs, more/specs]
device: cpu
cases: 40
timeout: 0
sanitize: {overflow: error}
regression: {registers: +8, spills: off, error: 2x}
profiles:
  quick: {cases: 5}
  night: {cases: 900, sanitize: {overflow: off, all: error}, timeout: 60}
targets: [sm_90]
"""
TOML = """\
[project]
name = "p"

[tool.kcheck]
specs = ["specs", "more/specs"]
device = "cpu"
cases = 40
timeout = 0
sanitize = {overflow = "error"}
regression = {registers = "+8", spills = "off", error = "2x"}
targets = ["sm_90"]
profiles.quick.cases = 5

[tool.kcheck.profiles.night]
cases = 900
timeout = 60
sanitize = {overflow = "off", all = "error"}
"""


@pytest.mark.parametrize(("file", "text"), [(FILE, WHOLE), ("pyproject.toml", TOML)])
def test_both_files_say_the_same(tmp_path: Path, file: str, text: str) -> None:
    """kcheck.yaml and [tool.kcheck] have the same keys, and a profile's values come before the file's."""
    found = settings(tmp_path, text, file=file)
    assert (found.specs, found.device, found.cases, found.timeout) == (("specs", "more/specs"), "cpu", 40, None)
    assert found.regression == {"registers": Limit(more=8), "spills": Limit(), "error": Limit(times=2)}
    assert found.sanitize == {**SANITIZERS, "overflow": "error"}
    assert found.targets == ("sm_90",)
    assert f"{file}:" in found.source_of("cases")
    night = read_project(tmp_path).settings("night")
    assert (night.cases, night.timeout, night.device) == (900, 60.0, "cpu")
    assert night.sanitize == {**dict.fromkeys(SANITIZERS, "error"), "overflow": "off"}, "a name comes before all"


def test_profiles_of_the_same_name_replace_the_built_in_ones(tmp_path: Path) -> None:
    """quick, ci and nightly exist; the file's own quick is not merged with the built-in one."""
    (tmp_path / FILE).write_text("profiles: {nightly: {timeout: 5}}")
    project = read_project(tmp_path)
    assert [*project.profiles] == ["quick", "ci", "nightly"]
    assert project.settings("quick").cases == 30
    assert project.settings("nightly").cases == 100
    assert project.settings("nightly").sanitize["overflow"] == "warn"


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("regression: {register: +8}", "2:14", "did you mean 'registers'?"),
        (
            "regression: {registers: many}",
            "2:25",
            "'registers' must be a limit such as +4, 10%, 1.5x or off, not 'many'",
        ),
        ("regression: {registers: 1e3}", "2:25", "1e3 is not a limit; write +4, 10%, 1.5x or off"),
        ("regression: {error: 0.5x}", "2:21", "the factor 0.5x is less than 1"),
        ("regression: +8", "2:13", "'regression' must be"),
        ("regresion: {registers: 1}", "2:1", "did you mean 'regression'?"),
        ("regression: {registers: [1]}", "2:25", "'registers' must be"),
        ("device: gpuu", "2:9", "did you mean 'gpu'?"),
        ("sanitize: {racechek: warn}", "2:12", "did you mean 'racecheck'?"),
        ("profiles: {quick: {case: 3}}", "2:20", "did you mean 'cases'?"),
        ("cases: many", "2:8", "'cases' must be"),
        ("timeout: -1", "2:10", "at least 0"),
        ("specs: specs", "2:8", "write [specs]"),
        ("targets: [80]", "2:11", "an item of 'targets' must be"),
        ("cases: 1\ncases: 2", "3:1", "cases"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_a_fix(tmp_path: Path, text: str, place: str, what: str) -> None:
    """file:line:col: what; the fix."""
    with pytest.raises(SpecError) as raised:
        settings(tmp_path, f"# limits\n{text}\n")
    (fault,) = raised.value.faults
    assert f"kcheck.yaml:{place}: " in str(fault)
    assert what in str(fault)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("[tool.kcheck]\ncase = 3\n", "2:1", "did you mean 'cases'?"),
        ("[tool.kcheck.profiles.ci]\ncases = 'many'\n", "2:1", "'cases' must be"),
        ("[tool.kcheck]\nsanitize = {all = 'error', racechek = 'off'}\n", "2:28", "did you mean 'racecheck'?"),
        ("[tool.kcheck]\ncases = \n", "2:9", "not valid TOML"),
        ("[tool]\nkcheck = 3\n", "2:1", "must be a table"),
    ],
)
def test_a_mistake_in_pyproject_has_its_line(tmp_path: Path, text: str, place: str, what: str) -> None:
    """TOML's reader gives no places, so they are found apart."""
    with pytest.raises(SpecError) as raised:
        settings(tmp_path, text, file="pyproject.toml")
    (fault,) = raised.value.faults
    assert f"pyproject.toml:{place}: " in str(fault)
    assert what in str(fault)


def test_two_files_with_settings_are_an_error(tmp_path: Path) -> None:
    """Neither wins silently; an empty kcheck.yaml beside [tool.kcheck] only marks the root."""
    (tmp_path / "pyproject.toml").write_text("[tool.kcheck]\ncases = 3\n")
    assert settings(tmp_path, "# root\n").cases == 3
    with pytest.raises(
        SpecError, match=r"pyproject.toml:1:2: the settings of kcheck are in .*kcheck.yaml already"
    ):
        settings(tmp_path, "cases: 4\n")


def test_an_unknown_profile_names_the_nearest(tmp_path: Path) -> None:
    """With what there is, where no name is near."""
    with pytest.raises(UserError, match="unknown profile 'nightli'; did you mean 'nightly'"):
        settings(tmp_path, "", "nightli")
    with pytest.raises(UserError, match="available: quick, ci, nightly"):
        settings(tmp_path, "", "zzz")


def test_the_schema_knows_every_sanitizer_and_measure() -> None:
    """The schema that editors use has the names that the reader uses."""
    schema = json.loads(schema_text(SCHEMA))
    assert set(schema["definitions"]["sanitize"]["properties"]) == {"all", *SANITIZERS}
    spec = json.loads(schema_text())
    assert schema["properties"]["regression"]["properties"] == spec["properties"]["regression"]["properties"]


def test_a_spec_comes_before_the_profile_and_the_profile_before_the_file(project: Path, softmax: str) -> None:
    """cases and sanitize that the spec names stay; what it leaves open is the project's."""
    (project / FILE).write_text(
        "cases: 7\nsanitize: {overflow: off, racecheck: warn}\ntargets: [sm_90]\n"
        "profiles: {ci: {cases: 9, sanitize: {overflow: error, initcheck: warn}}}\n"
    )
    file = project / "open.yaml"
    file.write_text(softmax + "sanitize: {racecheck: off}\n")
    plain, ci = load_spec(file), load_spec(file, "ci")
    assert (plain.count, ci.count) == (7, 9)
    assert (plain.sanitize["overflow"], ci.sanitize["overflow"]) == ("off", "error")
    assert (plain.sanitize["initcheck"], ci.sanitize["initcheck"]) == ("error", "warn")
    assert plain.sanitize["racecheck"] == ci.sanitize["racecheck"] == "off"
    assert plain.targets == ("sm_90",)
    file.write_text(softmax + "cases: {count: 3}\nartifact: {targets: [sm_86]}\n")
    assert load_spec(file, "ci").count == 3
    assert load_spec(file).targets == ("sm_86",)


def test_the_examples_of_the_documentation_are_valid(tmp_path: Path) -> None:
    """Each block of docs/config.md is a file that is accepted, and shows the built-in profiles as they are."""
    page = (Path(__file__).parents[2] / "docs/config.md").read_text("utf-8")
    blocks = dict(re.findall(r"```(yaml|toml)\n(.*?)```", page, re.DOTALL))
    settings(tmp_path, blocks["yaml"])
    assert read_project(tmp_path).profiles == BUILT_IN
    (tmp_path / FILE).unlink()
    assert settings(tmp_path, blocks["toml"], "quick", "pyproject.toml").cases == 10
