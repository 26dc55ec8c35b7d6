"""``kcheck validate``, ``kcheck cases``, ``kcheck schema``, and what is said to a typing mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from small_project import Kcheck


def test_validate_says_how_many_are_good(kcheck: Kcheck) -> None:
    """Good specs are counted in one calm line."""
    done = kcheck("validate", "specs", "specs/buggy/bad.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 specs valid\n", "")


def test_validate_names_every_fault_with_its_place(kcheck: Kcheck, project: Path) -> None:
    """Each fault is a line file:line:col: what; the fix, and the last line is their sum."""
    bad = project / "specs/broken/typo.yaml"
    bad.write_text(bad.read_text().replace("args: [x, y]", "args: [x, z]"))
    done = kcheck("validate", "-r", "specs")
    assert done.returncode == 2
    *faults, total = done.stdout.splitlines()
    assert len(faults) >= 2
    assert all(re.match(r"specs/broken/typo\.yaml:\d+:\d+: .+", fault) for fault in faults), faults
    assert any("did you mean 'dims'" in fault for fault in faults)
    assert total == f"{len(faults)} errors in 1 of 5 specs"
    alone = kcheck("validate", "specs/broken/typo.yaml").stdout.splitlines()[-1]
    assert alone == f"{len(faults)} errors in 1 spec"


def test_cases_lists_without_running(kcheck: Kcheck, project: Path) -> None:
    """The list is aligned, has a line per case, and comes without importing the kernel."""
    (project / "kernels/k.py").write_text((project / "kernels/k.py").read_text() + "\nraise SystemExit(77)\n")
    done = kcheck("cases", "specs/good.yaml", "--cases", "4")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["case", "seed", "dims", "dtypes", "layouts", "values"]
    assert len(rows) == 4
    for word in ("seed", "dims", "dtypes"):
        assert {row[head.index(word) - 1] for row in rows} == {" "}
        assert " " not in {row[head.index(word)] for row in rows}


def test_cases_are_those_of_run(kcheck: Kcheck) -> None:
    """What ``cases`` lists is what ``run`` runs, in the same order with the same seeds."""
    options = ("specs/good.yaml", "--cases", "3", "--seed", "9", "-k", "not N=5")
    listed = [row.split()[1] for row in kcheck("cases", *options).stdout.splitlines()[1:]]
    report = json.loads(kcheck("run", "--device", "simulator", *options, "--format", "json").stdout)
    assert [case["seed"] for case in report["specs"][0]["cases"]] == listed


def test_cases_as_json_are_those_of_the_report(kcheck: Kcheck) -> None:
    """``cases --format json`` has each case with the keys and values that the report of its run has."""
    options = ("specs/good.yaml", "--cases", "3", "--format", "json")
    listed = json.loads(kcheck("cases", *options).stdout)
    spec = json.loads(kcheck("run", "--device", "simulator", *options).stdout)["specs"][0]
    assert (listed["path"], listed["op"], listed["tags"]) == (spec["path"], spec["op"], spec["tags"])
    assert listed["cases"] == [{key: case[key] for key in listed["cases"][0]} for case in spec["cases"]]


@pytest.mark.parametrize("which", [(), ("op-spec",), ("config",), ("report",)])
def test_schema_is_printed(kcheck: Kcheck, which: tuple[str, ...]) -> None:
    """What is printed is a valid JSON Schema."""
    schema = json.loads(kcheck("schema", *which).stdout)
    jsonschema.Draft7Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rum",), "no command 'rum'; did you mean 'run'?"),
        (("valdate", "x"), "no command 'valdate'; did you mean 'validate'?"),
        (("specs/good.yaml",), "no command 'specs/good.yaml'; to run it: kcheck run specs/good.yaml"),
        (
            ("zzzzzz",),
            "no command 'zzzzzz'; `kcheck --help` lists the commands",
        ),
        (("run", "--fail-fats"), "--fail-fast"),
        (
            ("validate", "specs/god.yaml"),
            "specs/god.yaml: no such file or folder; did you mean 'specs/good.yaml'?",
        ),
    ],
)
def test_typing_mistakes_are_guessed(kcheck: Kcheck, arguments: tuple[str, ...], message: str) -> None:
    """A name that is not known is answered with the nearest one that is."""
    done = kcheck(*arguments)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout


def test_no_arguments_show_help(kcheck: Kcheck) -> None:
    """``kcheck`` alone shows its help, on stderr since nothing was checked."""
    done = kcheck()
    assert done.stdout == ""
    assert "Check kernels:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ("run", "kernels/unused.py"),
            "no spec uses kernels/unused.py (without a spec: kcheck try kernels/unused.py:KERNEL)",
        ),
        (("run", "kernels"), "no specs in kernels; add -r to search subfolders"),
        (("run", "-r", "kernels"), "no specs in kernels"),
        (("validate", "kernels", "kernels/unused.py"), "no spec uses kernels/unused.py; no specs in"),
        (("lint", "kernels"), "no specs in kernels; add -r"),
        (("baseline", "save", "v1", "kernels"), "no specs in kernels"),
        (("run", "-t", "absent"), "none of 2 specs has the tag 'absent'; their tags are clean"),
    ],
)
def test_nothing_selected_says_where_nothing_is(kcheck: Kcheck, arguments: tuple[str, ...], why: str) -> None:
    """The paths that hold no spec are named, and -r only where it is an option that was not given."""
    done = kcheck(*arguments)
    assert (done.returncode, done.stderr.partition(why)[0]) == (5, "kcheck: nothing selected: ")
    assert ("add -r" in done.stderr) == ("add -r" in why or arguments[0] == "validate")


def test_a_baseline_that_cannot_be_saved_is_refused_before_the_run(kcheck: Kcheck, project: Path) -> None:
    """No kernel, nor its reference, is loaded for numbers that would be lost."""
    (project / "baselines").write_text("a file where the folder would be")
    done = kcheck("baseline", "save", "v1", "specs/good.yaml", "--device", "simulator")
    assert (done.returncode, done.stdout) == (2, "")
    assert "baselines/v1.json: cannot be written" in done.stderr
    assert "a reference file prints" not in done.stderr
