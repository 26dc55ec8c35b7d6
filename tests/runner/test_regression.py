"""What counts as worse since a baseline."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.errors import UserError
from kcheck.model.baseline import MEASURES, Baseline, Errors, Limit, OpBaseline
from kcheck.runner.regression import changes, difference
from kcheck.specfile.regression import limit_of
from kcheck.store import baselines

KEY = ("k", "sm_80", "float32[:]")
NUMBERS = {
    "registers": 32.0,
    "spills": 0.0,
    "stack": 0.0,
    "shared": 512.0,
    "instructions": 100.0,
    "float64": 0.0,
    "fma": 8.0,
    "unfused": 4.0,
    "divisions": 1.0,
    "occupancy": 75.0,
}
ERRORS = Errors("floor", 30, 0.5, 1.0, 1.2, 3.0)
OP = OpBaseline("specs/k.yaml", "cpu", 30, 0, 30, 0, {"float32": ERRORS}, {KEY: NUMBERS})


def with_numbers(**numbers: float) -> OpBaseline:
    """The op, but for some of its kernel's numbers."""
    return dataclasses.replace(OP, kernels={KEY: {**NUMBERS, **numbers}})


def kinds(after: OpBaseline, **limits: Limit) -> dict[str, str]:
    """By measure, how it has changed."""
    return {change.measure: change.kind for change in changes("k", OP, after, limits)}


def test_nothing_has_changed() -> None:
    """The same numbers are no change."""
    assert kinds(OP) == {}


@pytest.mark.parametrize(
    ("measure", "value", "kind"),
    [
        ("registers", 36, "within"),
        ("registers", 37, "worse"),
        ("registers", 30, "better"),
        ("spills", 4, "worse"),
        ("stack", 8, "worse"),
        ("shared", 516, "worse"),
        ("instructions", 125, "within"),
        ("instructions", 126, "worse"),
        ("float64", 1, "worse"),
        ("divisions", 2, "worse"),
        ("divisions", 0, "better"),
        ("occupancy", 74.9, "worse"),
        ("occupancy", 100, "better"),
    ],
)
def test_each_number_has_its_limit(measure: str, value: float, kind: str) -> None:
    """The limit itself is within; beyond it is worse; less of what costs, more of what helps, is better."""
    assert kinds(with_numbers(**{measure: value})) == {measure: kind}


def test_a_lost_fma_is_one_that_came_apart() -> None:
    """Fewer fused operations are worse only where more stand alone; fewer of both is less work."""
    assert kinds(with_numbers(fma=4, unfused=12)) == {"fma": "worse"}
    assert kinds(with_numbers(fma=4, unfused=2)) == {}
    assert kinds(with_numbers(fma=9, unfused=4)) == {"fma": "better"}


def test_limits_can_be_given() -> None:
    """A limit replaces the one that a measure has of its own; off allows anything."""
    assert kinds(with_numbers(registers=60), registers=Limit(more=30)) == {"registers": "within"}
    assert kinds(with_numbers(spills=400), spills=Limit()) == {"spills": "within"}
    assert kinds(with_numbers(registers=33), registers=Limit(more=0)) == {"registers": "worse"}


@pytest.mark.parametrize(
    ("largest", "kind"), [(1.79, "within"), (1.81, "worse"), (0.9, "better")], ids=["limit", "beyond", "better"]
)
def test_errors_are_held_to_a_factor(largest: float, kind: str) -> None:
    """The largest error may be half as large again, in noise floors."""
    after = dataclasses.replace(OP, errors={"float32": dataclasses.replace(ERRORS, largest=largest)})
    assert kinds(after) == {"error": kind}


def test_a_change_that_three_digits_do_not_show_is_none() -> None:
    """0.9991 → 0.9993 is not better; where the limit is that tight it is still worse."""
    errors = {"float32": dataclasses.replace(ERRORS, p95=0.99931, largest=0.99931)}
    before = dataclasses.replace(OP, errors=errors)
    for largest, limits, kind in ((0.99912, {}, {}), (0.99944, {"error": Limit(times=1.0)}, {"error": "worse"})):
        after = dataclasses.replace(
            OP, errors={"float32": dataclasses.replace(errors["float32"], largest=largest)}
        )
        found = {change.measure: change.kind for change in changes("k", before, after, limits)}
        assert found == kind


def test_what_is_worse_has_a_line() -> None:
    """A kernel's change is at the kernel, an error's at its spec."""
    after = dataclasses.replace(with_numbers(registers=60), passed=29, failed=1, places={"k": "kernels/k.py:9"})
    assert {change.measure: change.at for change in changes("k", OP, after, {})} == {
        "registers": "kernels/k.py:9",
        "passed": "specs/k.yaml",
    }


def test_next_to_no_error_has_no_history() -> None:
    """Twice an error of a thousandth of the noise is no change that anybody needs to hear of."""
    tiny = dataclasses.replace(ERRORS, p95=0.001, largest=0.001)
    before = dataclasses.replace(OP, errors={"float32": tiny})
    after = dataclasses.replace(OP, errors={"float32": dataclasses.replace(tiny, p95=0.002, largest=0.004)})
    assert list(changes("k", before, after, {})) == []


def test_cases_that_fail_are_a_regression_only_of_the_same_cases() -> None:
    """One less of thirty is worse; twenty of twenty is another run, which is said."""
    assert kinds(dataclasses.replace(OP, passed=29, failed=1)) == {"passed": "worse"}
    fewer = dataclasses.replace(OP, passed=20)
    assert kinds(fewer) == {}
    assert difference({"k": OP}, {"k": fewer}, {}, ({}, {})).other_cases == ("k",)


def test_new_and_removed_ops_are_listed() -> None:
    """Ops, and kernels of an op that stayed, by name; another toolchain by what differs in it."""
    other = dataclasses.replace(OP, kernels={("k", "sm_90", "float32[:]"): NUMBERS})
    versions = ({"numba": "1", "kcheck": "2"}, {"numba": "3", "kcheck": "2"})
    found = difference({"k": OP, "old": OP}, {"k": other, "young": OP}, {}, versions)
    assert found.new == (("young", "", "", ""), ("k", "k", "sm_90", "float32[:]"))
    assert found.gone == (("old", "", "", ""), ("k", *KEY))
    assert found.versions == (("numba", "1", "3"),)
    assert found.changes == ()


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("+4", Limit(more=4)),
        ("0", Limit(more=0)),
        ("1.5x", Limit(times=1.5)),
        ("10%", Limit(times=1.1)),
        ("off", Limit()),
        ("0.5x", None),
        ("-4", None),
        ("four", None),
        ("", None),
    ],
)
def test_limits_are_read(text: str, limit: Limit | None) -> None:
    """By so much, to so much of it, anything; a factor below one is none."""
    assert limit_of(text) == limit


numbers = st.dictionaries(st.sampled_from(sorted(MEASURES)), st.floats(0, 1e6).map(lambda x: float(f"{x:.6g}")))
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(deadline=None)
@given(
    kernels=st.dictionaries(st.tuples(names, names, names), numbers, max_size=4), seed=st.integers(0, 2**64 - 1)
)
def test_a_baseline_is_read_as_it_was_saved(tmp_path_factory: pytest.TempPathFactory, kernels, seed: int) -> None:
    """Every number, name and seed comes back; saving again replaces the file, byte for byte the same."""
    root = tmp_path_factory.mktemp("project")
    op = dataclasses.replace(OP, kernels=kernels, seed=seed)
    saved = Baseline("v1", {"kcheck": "1"}, ("specs",), {"k": op})
    path = baselines.save(root, saved)
    text = path.read_bytes()
    assert baselines.load(root, "v1") == saved
    assert baselines.save(root, saved).read_bytes() == text
    assert baselines.names(root) == ["v1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "1:2: this is not JSON"),
        ("[]", "the file must be a mapping"),
        ('{"baseline": 2}', "is 2, but this kcheck supports 1"),
        ('{"baseline": 1, "versions": {}, "paths": []}', "lacks 'ops'"),
        ('{"baseline": 1, "versions": {}, "paths": [], "ops": {"k": {}}}', "op 'k' lacks 'cases'"),
    ],
)
def test_a_damaged_baseline_is_named(tmp_path: Path, text: str, said: str) -> None:
    """The file, what is wrong with it, the fix; never a traceback."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines/v1.json").write_text(text)
    with pytest.raises(UserError, match=r"v1\.json") as raised:
        baselines.load(tmp_path, "v1")
    assert said in str(raised.value)
    assert "save it again" in str(raised.value)


@pytest.mark.parametrize("name", ["", "../v1", "a b", ".v1", "x" * 65])
def test_names_are_file_names(tmp_path: Path, name: str) -> None:
    """A name that could leave the folder is refused."""
    with pytest.raises(UserError, match="is not a valid baseline name"):
        baselines.path_of(tmp_path, name)


def test_a_baseline_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    """The names that there are; with none, how to make one."""
    with pytest.raises(UserError, match="kcheck baseline save v2"):
        baselines.load(tmp_path, "v2")
    baselines.save(tmp_path, Baseline("v1", {}, (), {}))
    with pytest.raises(UserError, match="available: v1"):
        baselines.remove(tmp_path, "v2")
    baselines.remove(tmp_path, "v1")
    assert baselines.names(tmp_path) == []
