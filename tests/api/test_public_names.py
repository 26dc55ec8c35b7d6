"""The public API: its names, that importing it is light, that it is typed, and that every example runs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import kcheck

ROOT = Path(__file__).resolve().parents[2]

NAMES = """
Case Comparison DeviceUnavailable Execution Failure Finding Graded InternalError KcheckError KernelError Lint
Minimized
Report Reproduction SeededRng Spec SpecError UserError Verdict __version__ assert_close calibrate case_of cases
check dtypes exec grade hypothesis kernels layouts lint load_spec minimize monitor op prove reproduce shapes use
validate values
"""


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python in the checkout, without the simulator that the tests' own process may have."""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "80", **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_exported_names_are_these() -> None:
    """A name is added or removed on purpose only."""
    assert sorted(kcheck.__all__) == sorted(NAMES.split())
    assert dir(kcheck) == sorted(NAMES.split())


def test_every_name_that_is_exported_can_be_loaded() -> None:
    for name in kcheck.__all__:
        assert getattr(kcheck, name) is getattr(kcheck, name)


def test_the_names_that_type_checkers_see_are_the_names_at_run_time() -> None:
    """The lazy names are imported for type checkers alone; the two lists must be the same."""
    tree = ast.parse(Path(kcheck.__file__).read_text("utf-8"))
    seen = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kcheck")
        for alias in node.names
    }
    assert seen == set(NAMES.split())


def test_no_package_has_the_name_of_a_function() -> None:
    """The import system would put the package in its place: ``kcheck.cases`` would no longer be callable."""
    packages = {path.stem for path in Path(kcheck.__file__).parent.iterdir() if path.name != "__pycache__"}
    assert packages & set(kcheck.__all__) == {"hypothesis", "monitor"}


def test_importing_kcheck_imports_nothing_else() -> None:
    """`import kcheck` loads two modules of kcheck and no dependency."""
    code = (
        "import sys, json; old = set(sys.modules); import kcheck; print(json.dumps([*(set(sys.modules) - old)]))"
    )
    done = python("-c", code)
    loaded = json.loads(done.stdout)
    assert sorted(name for name in loaded if name.startswith("kcheck")) == ["kcheck", "kcheck.version"]
    assert not {"numpy", "numba", "click", "yaml"} & set(loaded)


def test_judging_arrays_imports_no_numba() -> None:
    code = (
        "import sys, kcheck, numpy as np\n"
        "kcheck.assert_close(np.ones(3), np.ones(3))\n"
        "list(kcheck.cases('specs/softmax.yaml', count=1))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('numba', 'llvmlite', 'cuda')])"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n", done.stdout + done.stderr


USER = """
import numpy as np
import kcheck
from kcheck import Spec, Verdict, check

spec: Spec = kcheck.load_spec("specs/softmax.yaml", kernel="kernels/softmax.py:softmax")
report = check(spec, cases=3, seed=1, sanitize={"racecheck": "warn"})
ok: bool = report.ok
rules: list[str] = [failure.rule for failure in report.failures]
for case in kcheck.cases(spec, count=2):
    verdict: Verdict = case.judge(case.inputs["x"])
    sizes: dict[str, int] = dict(case.dims)
kcheck.assert_close(np.ones(2), [1, 1])
again = kcheck.reproduce(spec, 17, device="cpu")
smallest = kcheck.minimize(spec, report.failures[0], strategy="dims")
if smallest is not None:
    print(smallest.matters)
rng: kcheck.SeededRng = kcheck.SeededRng(1).derive("x")
word: int = rng.choice([1, 2])
strategy = kcheck.hypothesis.cases(spec)
reveal_type(kcheck.lint(spec).ok)
detector = kcheck.monitor.OutlierDetector(share=0.01)

@kcheck.monitor.equivalent(None, "raise", rtol=1e-3, outlier_detector=detector, spec=spec)
def monitored(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    return float(x.sum())

with kcheck.monitor.EquivalenceChecker.start(workers=2, policy="block") as checker:
    total: float = monitored(np.ones(3, np.float32))
mismatches: int = checker.stats().mismatches
kcheck.monitor.equivalent(ground_truth_function=np.sum, failure_callback=print)
"""
WRONG = """
import kcheck
kcheck.check('s.yaml', cases='many')
kcheck.chek('s')
kcheck.monitor.equivalent(abs, rtoll=1)
"""


def test_a_users_file_passes_mypy_strict_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    """The annotations are complete, and precise enough for a program that uses every part of the API."""
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    files = [str(tmp_path / name) for name in ("user.py", "wrong.py")]
    done = python("-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *files)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.partition(".py:")[2].partition(":")[0] for line in errors if "wrong.py" in line] == [
        "3",
        "4",
        "5",
    ]
    assert 'Argument "cases" to "check"' in errors[0]
    assert 'has no attribute "chek"' in errors[1]
    assert 'Unexpected keyword argument "rtoll" for "equivalent"' in errors[2]
    assert len(errors) == 3, done.stdout
    assert re.search(r'Revealed type is "(builtins\.)?bool"', done.stdout)


def test_every_public_name_has_an_example_that_runs() -> None:
    done = python("tests/api/documented.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_blocks_of_the_python_page_run() -> None:
    done = python("tests/docs/page_blocks.py", "docs/python.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("11 blocks ran\n")


def test_the_blocks_of_the_gpuemu_page_run() -> None:
    """The client's quick start, with its import changed and translated."""
    done = python("tests/docs/page_blocks.py", "docs/coming-from-gpuemu.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "10/10 passed\n50 of 50\n5 blocks ran\n"


def test_each_counterpart_in_the_table_of_the_gpuemu_page_is_run_by_a_block() -> None:
    page = (ROOT / "docs/coming-from-gpuemu.md").read_text("utf-8")
    table = page.partition("| gpuemu's Python | kcheck's |")[2].partition("\n\n")[0]
    blocks = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"kcheck\.(\w+)", row.split("|")[2])}
    assert len(named) > 12
    assert [name for name in sorted(named) if f"kcheck.{name}(" not in blocks] == []


def test_the_python_page_names_every_function() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    missing = [
        name
        for name in NAMES.split()
        if name[0].islower() and f"kcheck.{name}" not in page and f"`{name}" not in page
    ]
    assert missing == []
