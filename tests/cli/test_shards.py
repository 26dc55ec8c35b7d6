"""``kcheck run --shard`` and ``kcheck merge``: parts of a run on several machines make the report of one run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from small_project import Kcheck

from kcheck.report.schema import schema_text

OPS = """
def reference(x):
    return 2 * x


def right(x):
    return x + x


def wrong(x):
    return x + x + (x.size % 3 == 2)


def nothing(x):
    return 0 * x


def copied(x):
    return x * 1
"""
FUNCTION = """\
kcheck: 1
op: {name}
function: ops.py:{name}
reference: ops.py:{reference}
dims: {{N: [1, 2, 3, 4, 5, 6, 7, 8]}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
cases: {{count: {count}}}
"""
KERNEL = """\
from numba import cuda


@cuda.jit
def last(x, y):
    i = cuda.grid(1)
    if i < x.size:
        if x.size > 6:
            y[i] = x[i] * 3
        else:
            y[i] = x[i] * 2
"""
SPEC = """\
kcheck: 1
op: last
kernel: k.py:last
reference: ops.py:reference
dims: {N: [1, 2, 3, 4, 5, 6, 7, 8]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [8]}
cases: {count: 11}
"""
_TIMES = (
    (r"\d+(\.\d+)? (ms|s|min)\b", "TIME"),
    (r'(time|timestamp|run-date|run-time|startTimeUtc|endTimeUtc)="?:? ?"?[^" ]*"', "TIME"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+\d\d:\d\d|Z)?", "TIME"),
    (r'"seconds": ?[0-9.e-]+', "TIME"),
    (r',"\d+\.\d{3}"\]', "TIME"),
    (r" +", " "),
)


@pytest.fixture
def project(tmp_path: Path) -> Kcheck:
    """``kcheck`` in a project of array functions and one kernel, whose specs fail in different ways."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "last.yaml").write_text(SPEC)
    for name, count in (("right", 7), ("wrong", 15)):
        text = FUNCTION.format(name=name, reference="reference", count=count)
        (tmp_path / f"{name}.yaml").write_text(text)
    return Kcheck(tmp_path)


def timeless(text: str) -> str:
    """A report without times, and without blanks that align them."""
    for pattern, word in _TIMES:
        text = re.sub(pattern, word, text)
    return text


def shards(kcheck: Kcheck, count: int, *arguments: str) -> list[str]:
    """Runs every shard, each with ``-o r.json``; returns the names to which their reports were moved."""
    names = []
    for number in range(1, count + 1):
        if "--lf" not in arguments:
            shutil.rmtree(kcheck.folder / ".kcheck", ignore_errors=True)  # it is another machine
        words = ("run", *arguments, "--shard", f"{number}/{count}", *_JSON)
        done = kcheck(*words)
        assert done.returncode in (0, 1), done.stderr
        names.append(f"part{number}.json")
        (kcheck.folder / "r.json").rename(kcheck.folder / names[-1])
    return names


_JSON = ("--format", "json", "-o", "r.json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("right.yaml", "wrong.yaml", "last.yaml", "--sanitize", "all", "--coverage", "-v"),
        ("right.yaml", "wrong.yaml", "-k", "not N=3", "--seed", "5", "--jobs", "2"),
    ],
)
def test_the_merged_report_is_that_of_one_run(project: Kcheck, arguments: tuple[str, ...]) -> None:
    """In every format, with the exit code, but for times. A spec is split between two shards, or three."""
    others = ("text", "concise", "junit", "xunit", "sarif", "github", "gitlab", "markdown", "html")
    files = tuple(word for form in others for word in ("--format", form, "-o", f"r.{form}"))
    del project.environment["KCHECK_STORE"]  # the page shows inputs of failures, which a run with a store captures
    whole = project("run", *arguments, *files, *_JSON)
    assert whole.returncode == 1, whole.stderr + whole.stdout
    one = {form: (project.folder / f"r.{form}").read_text() for form in (*others, "json")}
    parts = shards(project, 3, *arguments, *files)
    shown = [word for word in arguments if word in ("-v", "--coverage")]
    merged = project("merge", parts[2], *parts[:2], *shown, *files, *_JSON)
    assert merged.returncode == 1, merged.stderr
    for form, text in one.items():
        assert timeless((project.folder / f"r.{form}").read_text()) == timeless(text), form


def test_shards_have_every_case_once_and_are_of_similar_size(project: Kcheck) -> None:
    """And their reports follow the schema and say which part they are."""
    found, sizes = [], []
    for number, part in enumerate(shards(project, 4, "right.yaml", "wrong.yaml"), start=1):
        report = json.loads((project.folder / part).read_text())
        jsonschema.validate(report, json.loads(schema_text()), cls=jsonschema.Draft7Validator)
        assert (report["shard"]["number"], report["shard"]["of"]) == (number, 4)
        ids = [(spec["op"], case["id"]) for spec in report["specs"] for case in spec["cases"]]
        sizes.append(len(ids))
        found += ids
    assert len(set(found)) == len(found) == 22
    assert max(sizes) - min(sizes) <= 1


def test_a_shard_without_cases_passes_and_is_needed(project: Kcheck) -> None:
    """More machines than cases: nothing is selected in some of them, which is no error."""
    parts = shards(project, 9, "right.yaml")
    assert any(not json.loads((project.folder / part).read_text())["specs"] for part in parts)
    assert project("merge", *parts).returncode == 0
    done = project("merge", *parts[1:])
    assert done.returncode == 2
    assert "shard 1/9 is missing; add the report of `kcheck run --shard 1/9" in done.stderr


def test_what_is_judged_over_all_cases_is_judged_once(project: Kcheck) -> None:
    """A spec that a kernel of zeros passes fails with --strict, though no shard has enough cases to see it."""
    (project.folder / "nothing.yaml").write_text(FUNCTION.format(name="nothing", reference="nothing", count=8))
    whole = project("run", "nothing.yaml", "--strict", *_JSON)
    assert whole.returncode == 1
    one = (project.folder / "r.json").read_text()
    parts = shards(project, 3, "nothing.yaml", "--strict")
    findings = [json.loads((project.folder / part).read_text())["specs"][0]["findings"] for part in parts]
    assert [len(found) for found in findings] == [0, 0, 1]
    merged = project("merge", *parts, "--format", "json")
    assert merged.returncode == 1
    assert timeless(merged.stdout) == timeless(one)


@pytest.mark.parametrize(
    ("function", "codes"), [("ops.py:lost", (0, 2)), ("broken.py:right", (2, 2))], ids=["before", "while"]
)
def test_a_spec_whose_code_cannot_be_loaded_is_refused_once(
    project: Kcheck, function: str, codes: tuple[int, int]
) -> None:
    """Before the cases are shared out, or by two shards that have cases of it: exit code 2, as of one run."""
    (project.folder / "broken.py").write_text("def right(x):\n    return x\n\n\nraise RuntimeError('no')\n")
    text = FUNCTION.format(name="right", reference="reference", count=8)
    (project.folder / "lost.yaml").write_text(text.replace("ops.py:right", function))
    whole = project("run", "lost.yaml", "--format", "json")
    assert whole.returncode == 2
    for number, code in enumerate(codes, start=1):
        done = project("run", "lost.yaml", "--shard", f"{number}/2", "--format", "json", "-o", f"{number}.json")
        assert done.returncode == code, done.stderr
    merged = project("merge", "1.json", "2.json", "--format", "json")
    assert merged.returncode == 2
    assert json.loads(merged.stdout)["summary"] == json.loads(whole.stdout)["summary"]


def test_open_failures_are_shared_out_too(project: Kcheck) -> None:
    """``--lf`` with the same store on every machine."""
    del project.environment["KCHECK_STORE"]
    assert project("run", "wrong.yaml").returncode == 1
    one = project("run", "wrong.yaml", "--lf", *_JSON)
    assert one.returncode == 1
    whole = (project.folder / "r.json").read_text()
    parts = shards(project, 2, "wrong.yaml", "--lf")
    merged = project("merge", *parts, "--format", "json")
    assert merged.returncode == 1
    assert timeless(merged.stdout) == timeless(whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("twice", "are both shard 1/2; give each shard once"),
        ("other count", "is one of 3; pass the shards of one run"),
        ("other seed", "has different cases or files than in part1.json; run every shard on the same commit"),
        ("other file", "has different cases or files than in part1.json; run every shard on the same commit"),
        ("other specs", "right.yaml is only in one of them; run every shard with the same specs"),
        ("other options", "ran with --strict yes, part1.json with no; run every shard with the same options"),
        ("whole", "the report of a whole run, not of a shard; write one with `kcheck run --shard 1/2"),
        ("text", "not a JSON report"),
        ("no file", "cannot be read: No such file"),
    ],
)
def test_shards_of_different_runs_are_refused(project: Kcheck, change: str, words: str) -> None:
    """Exit code 2, with the file, what differs, and what to do."""
    write = ("--format", "json", "-o")
    assert project("run", "wrong.yaml", "--shard", "1/2", *write, "part1.json").returncode in (0, 1)
    second = ["run", "wrong.yaml", "--shard", "2/2", *write, "part2.json"]
    if change == "twice":
        second[3] = "1/2"
    elif change == "other count":
        second[3] = "2/3"
    elif change == "other seed":
        second += ["--seed", "7"]
    elif change == "other file":
        with (project.folder / "ops.py").open("a") as file:
            file.write("\n# changed\n")
    elif change == "other specs":
        second.insert(2, "right.yaml")
    elif change == "other options":
        second.append("--strict")
    elif change == "whole":
        del second[2:4]
    elif change == "text":
        second = ["run", "wrong.yaml", "--format", "junit", "-o", "part2.json"]
    if change != "no file":
        assert project(*second).returncode in (0, 1)
    done = project("merge", "part1.json", "part2.json")
    assert done.returncode == 2, done.stdout
    assert words in done.stderr


def test_other_versions_are_refused(project: Kcheck) -> None:
    """The first package that differs is named."""
    from kcheck.model import RunStarted
    from kcheck.store.records import record, recorded

    parts = shards(project, 2, "right.yaml")
    file = project.folder / parts[1]
    report = json.loads(file.read_text())
    head = recorded(report["shard"]["record"], RunStarted)
    assert head.shard is not None
    object.__setattr__(head.shard, "versions", {**head.shard.versions, "numpy": "1.0"})
    report["shard"]["record"] = record(head)
    file.write_text(json.dumps(report))
    done = project("merge", *parts)
    assert done.returncode == 2
    assert "made with numpy 1.0, part1.json with" in done.stderr
    assert "install the same versions for every shard" in done.stderr


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/1001"])
def test_a_shard_that_cannot_be_is_refused(project: Kcheck, shard: str) -> None:
    """With what to write instead."""
    done = project("run", "right.yaml", "--shard", shard)
    assert done.returncode == 2
    assert "write 1/" in done.stderr


def test_help_shows_both_commands_in_use(project: Kcheck) -> None:
    """``kcheck merge --help`` has a line for each machine."""
    done = project("merge", "--help")
    assert "kcheck run --shard 1/2 --format json -o part1.json" in done.stdout
    assert "--shard I/N" in project("run", "--help").stdout
