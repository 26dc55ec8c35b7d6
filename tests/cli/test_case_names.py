"""Short names of failures: ``last``, the numbers and ids of ``kcheck failures``, seeds and files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_project import Kcheck

RUN = ("run", "--device", "simulator", "specs/buggy/bad.yaml")
ROW = re.compile(r"^ +(?P<number>\d+)?  (?P<id>[k-z]{4,})  +(?P<seed>\d+)  mismatch", re.MULTILINE)


@pytest.fixture
def failed(stored: Kcheck, project: Path) -> Kcheck:
    """Two failures are open."""
    assert stored(*RUN).returncode == 1
    return stored


def rows(kcheck: Kcheck, *options: str) -> list[dict[str, str]]:
    return [found.groupdict() for found in ROW.finditer(kcheck("failures", *options, COLUMNS="120").stdout)]


def test_a_number_an_id_and_last_name_what_the_list_shows(failed: Kcheck) -> None:
    """Each command takes each name, and --last is the same as last."""
    first, second = rows(failed)
    assert (first["number"], second["number"]) == ("1", "2")
    for name, row in (("1", first), ("2", second), (second["id"], second), (second["id"][:3].upper(), second)):
        shown = failed("show", name)
        assert shown.returncode == 0, shown.stderr
        assert f"seed       {row['seed']}\n" in shown.stdout
        assert f"id         {row['id']}\n" in shown.stdout
    assert failed("show", "last").stdout == failed("show", "--last").stdout == failed("show", first["seed"]).stdout
    for done in (failed("reproduce", "2"), failed("reproduce", second["id"], "--op", "bad")):
        assert done.returncode == 1, done.stderr
        assert f"seed       {second['seed']}\n" in done.stdout
    # What was seen failing last is the one that was just reproduced.
    exported = failed("export", "--last")
    assert exported.stdout.startswith(f"wrote bad-{second['seed']}.kcase (")
    assert failed("minimize", "--last", "--strategy", "dims").returncode == 0


def test_show_takes_a_file(failed: Kcheck) -> None:
    """What export wrote is shown as the stored case is, without the store."""
    (row, _) = rows(failed)
    failed("export", "1", "-o", "case.kcase")
    shown = failed("show", "case.kcase", KCHECK_STORE="off")
    assert shown.returncode == 0, shown.stderr
    for part in ("inputs     x  float32[", "worst", f"seed       {row['seed']}", "kcheck reproduce case.kcase"):
        assert part in shown.stdout


def test_a_number_is_that_of_the_list_printed_last(failed: Kcheck, project: Path) -> None:
    """Another run finds another failure, which is the newest; until the next list the numbers stay."""
    first, second = rows(failed)
    assert failed(*RUN, "--cases", "4", "--seed", "99").returncode == 1
    for row in (first, second):
        assert f"id         {row['id']}\n" in failed("show", row["number"]).stdout
    assert "`kcheck failures` has no number 3," in failed("show", "3").stderr
    again = rows(failed)
    assert len(again) > 2
    for row in again[:3]:
        assert f"id         {row['id']}\n" in failed("show", row["number"]).stdout


def test_a_number_of_a_failure_that_is_fixed_since_is_still_its_own(failed: Kcheck, project: Path) -> None:
    """It runs again, and a note says that it is fixed."""
    _, second = rows(failed)
    kernels = project / "kernels/k.py"
    kernels.write_text(kernels.read_text().replace("x[i] * 3", "x[i] * 2"))
    assert failed(*RUN).returncode == 0
    done = failed("reproduce", "2")
    assert done.returncode == 0
    assert done.stdout.startswith("specs/buggy/bad.yaml · bad[")
    assert f"id         {second['id']}\n" in failed("show", "2").stdout
    assert "note: failure 2 of the last list is fixed; `kcheck failures` lists the open ones\n" in done.stderr


def test_numbers_without_a_list_are_those_of_the_next_one(failed: Kcheck) -> None:
    shown = [failed("show", number).stdout for number in ("1", "2")]
    for row, text in zip(rows(failed), shown, strict=True):
        assert f"id         {row['id']}\n" in text


def test_fixed_failures_keep_their_id_and_lose_their_number(failed: Kcheck, project: Path) -> None:
    """Numbers are those of open failures; ``last`` is an open one, too."""
    ids = [row["id"] for row in rows(failed)]
    kernels = project / "kernels/k.py"
    kernels.write_text(kernels.read_text().replace("x[i] * 3", "x[i] * 2"))
    done = failed("reproduce", "last")
    assert done.returncode == 0
    assert "FIXED" in done.stdout
    assert [row["number"] for row in rows(failed)] == ["1"]
    assert failed("reproduce", "last").returncode == 0
    again = failed("reproduce", "last")
    assert again.returncode == 2
    assert "no open failures; `kcheck failures -a` lists closed ones" in again.stderr
    assert {row["id"] for row in rows(failed, "-a")} == set(ids)
    assert failed("show", ids[0]).returncode == 0


def test_an_ambiguous_id_lists_what_it_may_be(failed: Kcheck) -> None:
    """Of two ids with a common letter the error names both, with op and seed."""
    failed(*RUN, "--cases", "40", "--seed", "8")
    ids = [row["id"] for row in rows(failed, "-a")]
    letter = next(one for one in "klmnopqrstuvwxyz" if sum(each.startswith(one) for each in ids) > 1)
    done = failed("show", letter)
    assert done.returncode == 2
    assert f"'{letter}' is ambiguous; it may be\n" in done.stderr
    candidates = re.findall(r"^  ([k-z]+)  bad  seed \d+  mismatch  open$", done.stderr, re.MULTILINE)
    assert set(candidates) <= {each for each in ids if each.startswith(letter)}
    assert len(candidates) > 1


def test_names_that_name_nothing_are_refused(failed: Kcheck) -> None:
    """Exit code 2, with what the name can be."""
    for arguments, message in (
        (("reproduce", "7"), "`kcheck failures` has no number 7, and no case with the seed 7 is stored"),
        (("reproduce", "kkkkkkkkkkkk"), "no stored failure has the id kkkkkkkkkkkk"),
        (("reproduce", "1", "--last"), "give one of CASE, --seed and --last"),
        (("show",), "give a case: a number or an id from `kcheck failures`, a seed, or --last"),
        (("export", "case.kcase"), "case.kcase is already an exported case"),
        (("reproduce", "last", "--no-store"), "last names a stored failure; remove --no-store"),
        (("reproduce", "last", "--op", "good"), "no open failures of good"),
    ):
        done = failed(*arguments)
        assert done.returncode == 2, arguments
        assert message in done.stderr


def test_a_number_is_a_seed_where_the_op_is_given(failed: Kcheck) -> None:
    """``reproduce 1 --op bad`` runs the case of seed 1, as on a machine with no store."""
    done = failed("reproduce", "1", "--op", "bad")
    assert done.returncode == 1
    assert "seed       1\n" in done.stdout
