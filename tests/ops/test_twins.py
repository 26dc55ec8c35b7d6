"""The buggy twins test the tester, so they must be near misses: the clean kernel but for a few statements."""

from __future__ import annotations

import ast
import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.evidence.corpus import CLASSES, ROOT, SUFFIXES, Twin, control_spec, entries, twins
from kcheck.model import SANITIZERS, OpSpec
from kcheck.specfile import discover, load_spec
from kcheck.symbolic import names, parse

TWINS = twins()
GROUP = 14
"""Twins that share a process: to start one costs as much as two of them."""
MOST_STATEMENTS = 6
KEYS = {"of", "class", "bug", "trigger", "harmless", "caught_by", "source", "public"}
RULES = {*SANITIZERS, "tolerance", "invariant", "artifact", "launch", "compile", "timeout", "guard", "vacuous"}

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)


def statements(path: Path) -> list[str]:
    """A file's code without comments and docstrings: one statement a line of Python, the lines of CUDA C++."""
    if path.suffix == ".cu":
        lines = (line.partition("//")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).splitlines()


def changed(clean: list[str], buggy: list[str]) -> int:
    """How many lines of the longer side differ, moved ones counted once on each side."""
    lines = [line[0] for line in difflib.ndiff(clean, buggy) if line.startswith(("- ", "+ "))]
    return max(lines.count("-"), lines.count("+"))


def test_the_manifest_names_what_there_is() -> None:
    """Every file of kernels/buggy and of specs/buggy belongs to an entry, and every entry has a spec."""
    listed = {twin.name for twin in TWINS}
    assert {path.stem for path in (ROOT / "specs" / "buggy").glob("*.yaml")} == listed
    files = [path for path in (ROOT / "kernels" / "buggy").iterdir() if path.suffix in SUFFIXES]
    assert {path.stem for path in files} <= listed
    assert len({path.stem for path in files}) == len(files)


def test_op_names_are_unique() -> None:
    """An op is named once in the project, the buggy ones included, and a spec's file is named after it."""
    specs = [load_spec(path) for path in discover([ROOT / "specs"], recursive=True).specs]
    assert sorted({spec.op for spec in specs}) == sorted(spec.op for spec in specs)
    assert [spec.op for spec in specs] == [Path(spec.path).stem for spec in specs]


@each_twin
def test_an_entry_is_whole(twin: Twin) -> None:
    """It names a class, at least one rule, and a control; a public report has its address and its point."""
    entry = entries()[twin.name]
    assert entry.keys() <= KEYS
    assert twin.kind in CLASSES
    assert twin.bug
    assert twin.trigger
    assert twin.caught_by
    assert set(twin.caught_by) <= RULES
    assert (ROOT / "specs" / f"{twin.of}.yaml").is_file()
    assert bool(twin.source) == bool(twin.public)
    assert not twin.source or twin.source.startswith("https://")


@each_twin
def test_a_twin_is_judged_as_its_control(twin: Twin) -> None:
    """Its spec differs in the kernel or its launch alone: cases, values, invariants are the control's."""
    spec, control = load_spec(twin.spec), control_spec(twin.of)
    assert spec.tags == ("buggy",)
    own = {"path", "span", "op", "description", "tags", "kernel", "launch", "launcher", "tolerance", "dtypes"}
    for name in set(OpSpec.__dataclass_fields__) - own:
        assert getattr(spec, name) == getattr(control, name), name
    assert spec.tolerance.kind == control.tolerance.kind
    assert [v.choices for v in spec.dtypes.values()] == [v.choices for v in control.dtypes.values()]
    if twin.harmless:
        assert names(parse(twin.harmless)) <= spec.dims.keys()


@each_twin
def test_a_twin_differs_in_few_statements(twin: Twin) -> None:
    """Without comments and docstrings it is the clean kernel, but for one to six statements."""
    spec, control = load_spec(twin.spec), control_spec(twin.of)
    if twin.kernel.is_file():
        used = {function.path for function in (spec.kernel, spec.launcher) if function is not None}
        theirs = {function.path for function in (control.kernel, control.launcher) if function is not None}
        assert used - theirs == {f"kernels/buggy/{twin.name}{twin.kernel.suffix}"}
        (origin,) = theirs - used
        assert 1 <= changed(statements(ROOT / origin), statements(twin.kernel)) <= MOST_STATEMENTS
    else:  # the bug is in how the spec launches the clean kernel
        assert spec.kernel == control.kernel
        assert spec.launch != control.launch


def _daily() -> set[str]:
    """The twins of every day: the first of each class."""
    chosen: dict[str, str] = {}
    for twin in TWINS:
        chosen.setdefault(twin.kind, twin.name)
    return set(chosen.values())


def _groups() -> list[object]:
    """The daily ones, and the others, which ``make soak`` looks at and ``make evidence`` measures."""
    daily = _daily()
    found: list[object] = []
    for is_daily in (True, False):
        chosen = [twin for twin in TWINS if (twin.name in daily) == is_daily]
        for start in range(0, len(chosen), GROUP):
            group = tuple(chosen[start : start + GROUP])
            marks = () if is_daily else (pytest.mark.soak,)
            found.append(pytest.param(group, marks=marks, id=f"{group[0].name}..{group[-1].name}"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("group", _groups())
def test_a_planted_bug_is_found_where_it_is(group: tuple[Twin, ...]) -> None:
    """On the cpu device each twin fails by a rule that the manifest expects, within 30 cases and at the spec's own
    seed, and passes where the manifest says that the bug does no harm. The report tells the bug in 15 lines."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ops.twins_on_cpu", *(twin.name for twin in group)],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    answer = json.loads(child.stdout)
    assert answer.keys() == {twin.name for twin in group}
    missed = {name: seen["rules"] for name, seen in answer.items() if not seen["caught"]}
    wrong = {name: seen["wrong"] for name, seen in answer.items() if seen["wrong"]}
    assert not missed, "not caught as expected; by name, what was found instead"
    assert not wrong, "could not be checked, or failed although the manifest calls it harmless there"
    assert {name: seen["lines"] for name, seen in answer.items() if seen["lines"] > 15} == {}
