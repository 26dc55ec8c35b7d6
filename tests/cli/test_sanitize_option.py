"""``kcheck run --sanitize``: levels by sanitizer, over those of every spec."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from small_project import SPEC, SPECS, Kcheck

from kcheck.cli.sanitize import Sanitize
from kcheck.model import SANITIZERS

RUN = ("run", "--device", "simulator", "specs/skips.yaml")
KERNEL = """

@cuda.jit
def skips(x, y):
    i = cuda.grid(1)
    if i < 4:
        cuda.syncthreads()
    if i < x.size:
        y[i] = x[i] + x[i]
"""


@pytest.fixture
def skips(project: Path) -> Path:
    """A spec in whose right kernel some threads skip a barrier."""
    with (project / "kernels/k.py").open("a") as file:
        file.write(KERNEL)
    words = {**SPECS["specs/good.yaml"], "op": "skips", "kernel": "skips"}
    (project / "specs/skips.yaml").write_text(SPEC.format(**words))
    return project


@pytest.mark.parametrize(
    ("options", "code", "shown"),
    [
        ((), 1, "synccheck  "),
        (("--sanitize", "synccheck=warn"), 0, "synccheck  "),
        (("--sanitize", "synccheck=off"), 0, ""),
        (("--sanitize", "all=off"), 0, ""),
        (("--sanitize", "all=off", "--sanitize", "synccheck"), 1, "synccheck  "),
        (("--sanitize", "synccheck", "--sanitize", "all=warn"), 0, "synccheck  "),
    ],
)
def test_a_finding_fails_warns_or_is_not_told(
    kcheck: Kcheck, skips: Path, options: tuple[str, ...], code: int, shown: str
) -> None:
    """An error exits with 1, a warning is shown and exits with 0, off says nothing; the later option counts."""
    done = kcheck(*RUN, *options)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("threads wait at the barrier" in done.stdout) == bool(shown)
    assert ("1 warning" in done.stdout) == (code == 0 and bool(shown))


def test_the_command_line_has_the_last_word(kcheck: Kcheck, skips: Path) -> None:
    """A level of the spec gives way to one of the command line, in both directions."""
    spec = skips / "specs/skips.yaml"
    spec.write_text(spec.read_text() + "sanitize: {synccheck: off}\n")
    assert kcheck(*RUN).returncode == 0
    assert kcheck(*RUN, "--sanitize", "synccheck").returncode == 1


def test_reports_tell_the_levels_and_the_cases_seen(kcheck: Kcheck, skips: Path) -> None:
    """The text's head, the JSON's figures, the properties of the JUnit suite."""
    done = kcheck(
        *RUN, "--sanitize", "synccheck=warn", "--sanitize", "mutated=off",
        "--format", "text", "--format", "json", "-o", "r.json", "--format", "junit", "-o", "r.xml",
    )  # fmt: skip
    assert "synccheck warn · mutated off" in done.stdout.replace("\n", " ")
    assert "mutated off" in done.stdout
    report = json.loads((skips / "r.json").read_text())
    assert report["sanitize"] == {"synccheck": "warn", "mutated": "off"}
    (spec,) = report["specs"]
    assert spec["sanitizers"]["synccheck"] == {"level": "warn", "cases": 2}
    assert spec["sanitizers"]["racecheck"] == {"level": "error", "cases": 0}
    assert "mutated" not in spec["sanitizers"]
    properties = {each.get("name"): each.get("value") for each in ET.parse(skips / "r.xml").iter("property")}
    assert properties["synccheck"] == "warn, 2 of 2 cases"
    assert "not checked on the simulator: racecheck, initcheck, overflow" in properties["not checked"]


def test_names_and_levels() -> None:
    """A name alone is an error, `all` is every one, and the order is that of the table."""
    option = Sanitize()
    pairs = [option.convert(text, None, None) for text in ("overflow", "racecheck = off", "memcheck=warn")]
    assert option.levels(pairs) == {"memcheck": "warn", "racecheck": "off", "overflow": "error"}
    assert option.levels([("all", "off"), ("mutated", "warn")]) == {
        **dict.fromkeys(SANITIZERS, "off"),
        "mutated": "warn",
    }
