"""``kcheck run`` as its user sees it: selection, reports and their places."""

from __future__ import annotations

import gc
import json
import re
import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from small_project import Kcheck

from kcheck.interpreter import kept
from kcheck.report.schema import schema_text

RUN = ("run", "--device", "simulator")


def read(text: str) -> Any:
    document = json.loads(text)
    jsonschema.validate(document, json.loads(schema_text()), cls=jsonschema.Draft7Validator)
    return document


def test_failure_is_reported_with_a_line_that_replays_it(kcheck: Kcheck) -> None:
    """The line to paste of a failure runs that case alone, which fails alike."""
    first = kcheck(*RUN, "specs/buggy/bad.yaml")
    assert first.returncode == 1
    assert first.stdout.startswith("kcheck ")
    found = re.search(r"kcheck run (specs/buggy/bad.yaml --case-seed \d+ --device simulator)", first.stdout)
    assert found is not None, first.stdout
    again = kcheck("run", *found[1].split())
    assert again.returncode == 1
    assert "1 of 1 failed" in again.stdout
    shown = re.search(r"  actual .*\n  expected .*\n", first.stdout)
    assert shown is not None
    assert shown[0] in again.stdout


def test_what_kernels_print_is_not_on_stdout(kcheck: Kcheck) -> None:
    """A kernel and a module that print leave the JSON on stdout whole; what they print is on stderr."""
    done = kcheck(*RUN, "specs/loud.yaml", "--format", "json")
    assert read(done.stdout)["summary"]["passed"] == 2
    assert "a kernel prints" in done.stderr
    assert "a reference file prints" in done.stderr


def test_several_reports_at_once(kcheck: Kcheck, project: Path) -> None:
    """Each -o belongs to the --format before it, and text still goes to stdout, where nothing else does."""
    arguments = ("--format", "junit", "-o", "r.xml", "--format", "json", "-o", "r.json")
    done = kcheck(*RUN, "specs", "-r", "--max-failures", "1", *arguments)
    assert done.returncode == 2
    document = read((project / "r.json").read_text())
    statuses = {spec["path"]: spec["status"] for spec in document["specs"]}
    assert statuses["specs/broken/typo.yaml"] == "refused"
    suites = {suite.get("name"): suite for suite in ET.parse(project / "r.xml").getroot()}
    assert set(suites) == set(statuses)
    assert done.stdout.splitlines()[-1].endswith(" s")
    assert sorted(path.name for path in project.iterdir() if path.name.startswith((".r", "r."))) == [
        "r.json",
        "r.xml",
    ]


def test_same_command_gives_same_bytes_but_for_times(kcheck: Kcheck, project: Path) -> None:
    """Two runs of one command, with hash seeds of their own, differ in nothing but the values under ``time``."""
    arguments = (*RUN, "specs", "specs/buggy", "--format", "json", "-o", "r.json")
    texts = []
    for _ in range(2):
        kcheck.start(*arguments)
        texts.append((project / "r.json").read_text())
    strip = re.compile(r'"time": \{[^}]*\}')
    assert strip.sub("", texts[0]) == strip.sub("", texts[1])


@pytest.mark.parametrize(
    ("arguments", "specs"),
    [
        ((), ["specs/good.yaml", "specs/loud.yaml"]),
        (("-k", "good"), ["specs/good.yaml"]),
        (("-k", "clean and not loud"), ["specs/good.yaml"]),
        (("specs/buggy", "specs/good.yaml", "-t", "buggy"), ["specs/buggy/bad.yaml"]),
        (
            ("specs/buggy", "specs", "-t", "buggy", "-t", "clean", "-x"),
            ["specs/buggy/bad.yaml", "specs/good.yaml", "specs/loud.yaml"],
        ),
        (("kernels/k.py", "-t", "clean", "-k", "loud"), ["specs/broken/typo.yaml", "specs/loud.yaml"]),
    ],
)
def test_selection(kcheck: Kcheck, arguments: tuple[str, ...], specs: list[str]) -> None:
    """Paths, tags and -k select which specs are reported; one that cannot be read stays: nobody knows its tags."""
    done = kcheck(*RUN, "--cases", "1", "--format", "json", *arguments)
    assert [spec["path"] for spec in read(done.stdout)["specs"]] == specs


def test_one_case_by_its_seed(kcheck: Kcheck) -> None:
    """--case-seed runs exactly one case, and takes the seed in hexadecimal too."""
    seeds = []
    for seed in ("255", "0xff"):
        document = read(kcheck(*RUN, "specs/good.yaml", "--case-seed", seed, "--format", "json").stdout)
        seeds += [case["seed"] for case in document["specs"][0]["cases"]]
    assert seeds == ["255", "255"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "r.xml"), "-o r.xml: no --format before it; write '--format junit -o r.xml'"),
        (("-o", "r.json"), "-o r.json: no --format before it; write '--format json -o r.json'"),
        (("--format", "json", "-o", "a", "-o", "b"), "-o b: no --format after '-o a'"),
        (("--format", "json", "--format", "junit"), "--format json and --format junit both go to stdout"),
        (("--format", "json", "-o", "a", "--format", "junit", "-o", "./a"), "is given twice"),
        (
            ("--format", "json", "-o", "no/where/r.json"),
            "-o no/where/r.json: no such folder: 'no/where'; create it first",
        ),
        (("--format", "json", "-o", "specs"), "-o specs is a folder; name a file in it"),
        (("--format", "jsn"), "'jsn' is not one of 'text', 'concise', 'json', 'junit', 'xunit', 'sarif'"),
        (("--formt", "json"), "--format"),
        (("--seed", "-3"), "-3 is negative; a seed is a number from 0 to 18446744073709551615"),
        (
            ("--sanitize", "racechek=off"),
            "unknown sanitizer 'racechek'; did you mean 'racecheck'? Choose from",
        ),
        (
            ("--sanitize", "leaks"),
            "unknown sanitizer 'leaks'; choose from memcheck, racecheck, initcheck, synccheck,",
        ),
        (
            ("--sanitize", "racecheck=warning"),
            "unknown level 'warning' for racecheck; did you mean 'warn'?",
        ),
        (("--sanitize", "all="), "unknown level '' for all; choose from error, warn, off"),
        (("--seed", "1e3"), "'1e3' is not a seed; write an integer, decimal or hexadecimal (0x1f)"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    kcheck: Kcheck, project: Path, arguments: tuple[str, ...], message: str
) -> None:
    """A mistake on the command line says what to write instead, exits with 2, and leaves no file behind."""
    before = sorted(project.iterdir())
    done = kcheck(*RUN, "specs/good.yaml", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(project.iterdir()) == before


def test_report_replaces_a_file_behind_a_link_and_keeps_its_mode(kcheck: Kcheck, project: Path) -> None:
    """-o through a link writes what it points to; the file's permissions stay."""
    target = project / "real.json"
    target.write_text("old")
    target.chmod(0o640)
    (project / "link.json").symlink_to("real.json")
    kcheck(*RUN, "specs/good.yaml", "--cases", "1", "--format", "json", "-o", "link.json")
    assert (project / "link.json").is_symlink()
    assert read(target.read_text())["summary"]["passed"] == 1
    assert target.stat().st_mode & 0o777 == 0o640


def test_report_may_go_to_a_device(kcheck: Kcheck) -> None:
    """-o /dev/null writes there and does not replace it."""
    done = kcheck(*RUN, "specs/good.yaml", "--cases", "1", "--format", "json", "-o", "/dev/null")
    assert done.returncode == 0
    assert not Path("/dev/null").is_file()


def test_report_to_stdout_can_be_said(kcheck: Kcheck) -> None:
    """-o - is stdout, as without -o."""
    done = kcheck(*RUN, "specs/good.yaml", "--cases", "1", "--format", "json", "-o", "-")
    assert read(done.stdout)["summary"]["passed"] == 1


def test_quiet_says_only_the_sum_when_all_is_well(kcheck: Kcheck) -> None:
    """-q leaves one line of a run without a fault."""
    done = kcheck(*RUN, "specs/good.yaml", "--cases", "1", "-q")
    assert re.fullmatch(r"1 spec passed · 1 case · simulator · [0-9.]+ s\n", done.stdout)


@pytest.mark.parametrize(
    ("when", "environment", "colored"),
    [
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_where_it_is_wanted(kcheck: Kcheck, when: str, environment: dict[str, str], colored: bool) -> None:
    """A pipe gets colors only when asked; the option wins over NO_COLOR, and that over FORCE_COLOR."""
    done = kcheck(*RUN, "specs/good.yaml", "--cases", "1", "--color", when, **environment)
    assert ("\x1b[" in done.stdout) is colored


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_do_not_change_the_verdict(kcheck: Kcheck, closed: str) -> None:
    """A caller that closes stdout or stderr gets the exit code all the same."""
    command = shlex.join(kcheck.command(*RUN, "specs/buggy/bad.yaml", "--cases", "1"))
    done = subprocess.run(
        f"{command} {closed}", shell=True, cwd=kcheck.folder, env=kcheck.environment, timeout=120
    )
    assert done.returncode == 1


def test_ascii_terminal_gets_the_report(kcheck: Kcheck) -> None:
    """Where stdout can hold ASCII alone the report is ASCII, and whole."""
    done = kcheck(*RUN, "specs/good.yaml", "--cases", "1", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "1 spec passed - 1 case - simulator" in done.stdout


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    """What the device is made of is left out of collections; whether there are any is as before, errors or not."""
    before, frozen = gc.isenabled(), gc.get_freeze_count()
    (gc.enable if enabled else gc.disable)()
    made: list[list[int]] = []

    def fail() -> None:
        with kept():
            made.extend([] for _ in range(1000))
            assert not gc.isenabled()
            raise KeyError

    try:
        with pytest.raises(KeyError):
            fail()
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() >= frozen + len(made)
    finally:
        (gc.enable if before else gc.disable)()
        gc.unfreeze()


TRIVIAL = """\
kcheck: 1
op: trivial
kernel: kernels/k.py:double
reference: references/r.py:double
dims: {N: [1, 2, 5]}
inputs: {x: {shape: [N], values: zeros}}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [8]}
cases: {count: 6}
"""


def test_a_spec_that_tests_nothing_warns_and_fails_under_strict(kcheck: Kcheck, project: Path) -> None:
    """Twice zero is zero: a warning and exit 0; with --strict a finding that fails the spec, in every report."""
    (project / "specs/trivial.yaml").write_text(TRIVIAL)
    reports = ("--format", "json", "-o", "r.json", "--format", "junit", "-o", "r.xml")
    lax = kcheck(*RUN, "specs/trivial.yaml", *reports)
    assert lax.returncode == 0, lax.stdout + lax.stderr
    assert "6 passed, 1 warning" in lax.stdout
    document = read((project / "r.json").read_text())
    assert (document["strict"], document["specs"][0]["status"]) == (False, "passed")
    assert document["specs"][0]["findings"][0]["severity"] == "warn"
    assert not list(ET.parse(project / "r.xml").iter("failure"))

    strict = kcheck(*RUN, "specs/trivial.yaml", "--strict", *reports)
    assert strict.returncode == 1
    assert " · strict" in strict.stdout.splitlines()[0]
    assert re.search(r"^FAIL +specs/trivial.yaml +6 passed, 1 finding", strict.stdout, re.M)
    assert "a kernel that writes zeros" in " ".join(strict.stdout.split())
    document = read((project / "r.json").read_text())
    assert (document["strict"], document["specs"][0]["status"]) == (True, "failed")
    (failure,) = ET.parse(project / "r.xml").iter("failure")
    assert failure.get("type") == "vacuous"


def test_strict_leaves_specs_alone_that_test_something(kcheck: Kcheck, project: Path) -> None:
    """What a spec tests is not asked of cases that were picked out, and a sound spec passes."""
    (project / "specs/trivial.yaml").write_text(TRIVIAL)
    assert kcheck(*RUN, "specs/trivial.yaml", "--strict", "-k", "iter").returncode == 0
    done = kcheck(*RUN, "specs/good.yaml", "--strict")
    assert done.returncode == 0
    assert "warning" not in done.stdout
