"""``kcheck report``: a stored run, reported as it was when it ran."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from small_project import SPEC, SPECS, Kcheck, write_project

from kcheck.report import REPORTERS

FORMATS = sorted(set(REPORTERS) - {"text", "github"})


def reports(folder: str) -> tuple[str, ...]:
    """Options that write every format into a folder; text is last, as the colors and widths of a file."""
    return tuple(
        word for name in (*FORMATS, "text", "github") for word in ("--format", name, "-o", f"{folder}/{name}")
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Kcheck:
    """A project with a stored run: a spec that passes, one that fails, one without a verdict, one refused.

    Its reports are in ``then``, and in ``now`` those of ``kcheck report``. In the next run, the spec that failed
    passes.
    """
    root = tmp_path_factory.mktemp("a project")
    write_project(root)
    stored = Kcheck(root)
    stored.environment.pop("KCHECK_STORE", None)
    for folder in ("then", "now"):
        (root / folder).mkdir()
    paths = ("specs/good.yaml", "specs/broken/typo.yaml", "specs/buggy/bad.yaml", "specs/broken/lost.yaml")
    assert stored("run", *paths, *reports("then")).returncode == 2
    result = stored("report", *reports("now"))
    assert (result.returncode, result.stderr) == (0, "")
    good = SPEC.format(**{**SPECS["specs/buggy/bad.yaml"], "kernel": "double"})
    (root / "specs/buggy/bad.yaml").write_text(good)
    assert stored("run", "specs/buggy/bad.yaml").returncode == 0
    return stored


def test_a_report_from_the_store_is_the_report_of_the_run(ran: Kcheck) -> None:
    """Every format, byte for byte; the store has the whole run, also the spec that was refused."""
    for path in sorted((ran.folder / "then").iterdir()):
        assert (ran.folder / "now" / path.name).read_text() == path.read_text(), path.name
    assert len(json.loads((ran.folder / "now/json").read_text())["specs"]) == 4


def test_the_last_run_is_the_default(ran: Kcheck) -> None:
    """With the failures that it fixed."""
    text = ran("report").stdout
    assert "1 spec passed" in text
    assert "2 fixed since" in text


def test_since_takes_the_newest_run_of_each_spec(ran: Kcheck) -> None:
    """A spec that was fixed since is reported as it is now, the others as they were."""
    document = json.loads(ran("report", "--since", "1h", "--format", "json").stdout)
    assert {spec["path"]: spec["status"] for spec in document["specs"]} == {
        "specs/broken/lost.yaml": "error",
        "specs/broken/typo.yaml": "refused",
        "specs/buggy/bad.yaml": "passed",
        "specs/good.yaml": "passed",
    }


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (("--run", "9"), "run 9 is not stored; `kcheck runs` lists the stored runs", 2),
        (("--run", "1", "--since", "1h"), "--run and --since cannot be combined", 2),
        (("--since", "2030-01-01"), "no run is stored since then", 5),
        (("-o", "r.json"), "no --format before it", 2),
    ],
)
def test_what_cannot_be_reported_is_an_error(
    ran: Kcheck, arguments: tuple[str, ...], says: str, code: int
) -> None:
    """With the way to find what can."""
    result = ran("report", *arguments)
    assert (result.returncode, says in result.stderr) == (code, True), result.stderr


def test_a_run_of_an_older_kcheck_has_only_counts(ran: Kcheck) -> None:
    """Its row has no document; the message says so."""
    with sqlite3.connect(ran.folder / ".kcheck/store.db") as connection:
        connection.execute(
            """INSERT INTO runs (id, version, command, device, device_name, started)
               VALUES (3, '', '', 'cpu', '', '2020-01-01T00:00:00+00:00')"""
        )
    connection.close()
    result = ran("report", "--run", "3")
    with sqlite3.connect(ran.folder / ".kcheck/store.db") as connection:
        connection.execute("DELETE FROM runs WHERE id = 3")
    connection.close()
    assert result.returncode == 2
    assert "run 3 has no details: an older kcheck stored it, or it is not among the last 50 runs" in result.stderr


def test_an_empty_store_has_nothing_to_report(stored: Kcheck, tmp_path: Path) -> None:
    """Exit 5, as for a run that selects nothing."""
    result = stored("report")
    assert (result.returncode, result.stderr) == (5, "kcheck: no run is stored; `kcheck runs` lists them\n")
