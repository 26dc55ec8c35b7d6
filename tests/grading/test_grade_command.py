"""``kcheck grade``: output, exit codes, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.grading.attempts import ATTEMPTS, HONEST, KERNELS
from tests.grading.test_attempts import project  # noqa: F401  # a fixture


def _grade(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "COLUMNS": "80"}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    command = [sys.executable, "-m", "kcheck", "grade", "twice.yaml", *words, "--cases", "4"]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def candidates(project: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:  # noqa: F811
    folder = tmp_path_factory.mktemp("candidates with a blank")
    texts = {"good.py": HONEST["plain"], "wrong.py": ATTEMPTS["wrong kernel"][1]}
    for name, text in texts.items():
        (folder / name).write_text(KERNELS + text)
    return [str(folder / name) for name in texts]


def test_a_line_for_each_and_a_table(project: Path, candidates: list[str]) -> None:  # noqa: F811
    done = _grade(project, *candidates)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("correct")
    assert lines[1].startswith("wrong")
    assert lines[2].startswith("          mismatch: ")
    assert max(map(len, lines[2:-6])) <= 80
    assert "expected" in " ".join(lines[2:5])
    assert lines[-1] == "2 candidates: 1 correct, 1 wrong"


def test_exit_0_if_all_are_correct(project: Path, candidates: list[str]) -> None:  # noqa: F811
    assert _grade(project, candidates[0]).returncode == 0


def test_lines_of_json_from_two_processes(project: Path, candidates: list[str]) -> None:  # noqa: F811
    done = _grade(project, *candidates, "--format", "json", "--jobs", "2")
    found = {row["candidate"]: row for row in map(json.loads, done.stdout.splitlines())}
    good, wrong = (found[name] for name in candidates)
    assert (good["verdict"], good["reward"], good["case"]) == ("correct", 1, None)
    assert good["passed"] == good["cases"] == good["planned"]
    assert (wrong["verdict"], wrong["rule"]) == ("wrong", "mismatch")
    assert set(wrong["case"]["dims"]) == {"N"}
    assert (
        wrong["place"]["line"]
        == (KERNELS + ATTEMPTS["wrong kernel"][1]).splitlines().index("def solve(x, y, N): launch(wrong, x, y)")
        + 1
    )
    assert wrong["seconds"] > 0


def test_shards_are_parts_of_the_candidates(project: Path, candidates: list[str]) -> None:  # noqa: F811
    parts = [_grade(project, *candidates, "--format", "json", "--shard", f"{n}/3") for n in (1, 2, 3)]
    assert [[json.loads(line)["candidate"] for line in part.stdout.splitlines()] for part in parts] == [
        candidates[:1],
        candidates[1:],
        [],
    ]
    assert [part.returncode for part in parts] == [0, 1, 0]


def test_rewards_are_in_order_and_the_same_each_time(project: Path, candidates: list[str]) -> None:  # noqa: F811
    first, second = (_grade(project, *reversed(candidates), "--reward").stdout for _ in range(2))
    assert first == second
    assert [float(line) for line in first.split()] == [0, 1]


def test_feedback_names_the_case_and_the_values_there(project: Path, candidates: list[str]) -> None:  # noqa: F811
    said = _grade(project, candidates[1], "--feedback").stdout
    assert "expected" in said
    assert "at N=" in said


def test_junit_has_a_case_for_each(project: Path, candidates: list[str]) -> None:  # noqa: F811
    suite = ElementTree.fromstring(_grade(project, *candidates, "--format", "junit").stdout)
    assert [case.find("failure") is not None for case in suite.iter("testcase")] == [False, True]


def test_html_escapes_names(project: Path, candidates: list[str], tmp_path: Path) -> None:  # noqa: F811
    strange = tmp_path / "<b>.py"
    strange.write_text(KERNELS + HONEST["plain"])
    page = _grade(project, str(strange), "--format", "html").stdout
    assert "&lt;b&gt;.py" in page
    assert "<b>.py" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.py"], "there is no file missing.py"),
        (["solution.py", "--reward", "--feedback"], "use one of --reward, --feedback and --format"),
        (["solution.py", "--memory", "much"], "'much' is not a size"),
        (["solution.py", "--timeout", "0"], "--timeout"),
    ],
)
def test_bad_input_is_exit_2(project: Path, words: list[str], said: str) -> None:  # noqa: F811
    done = _grade(project, *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("twice.yaml", "kcheck: 1\nop: twice\n", "missing key"),
        ("model.py", "x = 1\n", "does not define Model and get_inputs"),
        ("model.py", "class Model:\n", "is not valid Python"),
        ("op.json", "{}", "has no name and no axes"),
        ("notes.txt", "", "is not a problem"),
    ],
)
def test_a_bad_problem_is_exit_2(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / name).write_text(text)
    (tmp_path / "a.py").write_text("")
    command = [sys.executable, "-m", "kcheck", "grade", name, "a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("none", "the spec has no reference"),
        ("reference.py:twice", "the reference raised ValueError: not today"),
    ],
)
def test_a_problem_without_expected_values_says_nothing_about_candidates(
    project: Path,  # noqa: F811
    tmp_path: Path,
    reference: str,
    said: str,
) -> None:
    (tmp_path / "kcheck.yaml").write_text("")
    text = (project / "twice.yaml").read_text().replace("reference: reference.py:twice", f"reference: {reference}")
    (tmp_path / "twice.yaml").write_text(text)
    (tmp_path / "reference.py").write_text("def twice(x):\n    raise ValueError('not today')\n")
    (tmp_path / "solution.py").write_text(KERNELS + HONEST["plain"])
    done = _grade(tmp_path, "solution.py")
    assert (done.returncode, said in done.stderr) == (2, True), done.stdout + done.stderr
