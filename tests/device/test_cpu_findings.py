"""Each kind of finding on the cpu device: a kernel with the bug, and its clean twin, one line apart.

One process runs them all, so that each row also shows that the one before it left the device whole.
"""

from __future__ import annotations

import pytest
from cpu_project import CpuProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: [N], w: {shape: [N], dtype: int32, values: {integers: [0, 9]}}}
outputs: {y: [N], ok: {shape: [N], dtype: bool}}
launch: {args: [x, w, y, ok, N], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 1}
sanitize: {racecheck: off, initcheck: off, overflow: off}  # each row is about one rule, and some bugs are several
"""
REFERENCE = "def op(x, w):\n    return {'y': 2 * x, 'ok': w > 3}\n"
CLEAN = """
@cuda.jit
def op(x, w, y, ok, n):
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    s = cuda.shared.array(32, float32)
    if i < n:
        s[t] = x[i]
    cuda.syncthreads()
    if i < n:
        y[i] = s[t] * 2
        ok[i] = w[i] > 3
"""
SYNC = "    cuda.syncthreads()"
READ, STORE, LOAD = "        ok[i] = w[i] > 3", "        y[i] = s[t] * 2", "        s[t] = x[i]"
LOCAL = "        a = cuda.local.array(4, float32); a[0] = 2; a[1] = 0; a[2] = 0; a[3] = 0\n"

BUGS = {
    # name: (rule, the clean line, the buggy one, what the message says, (array, index, block, thread))
    "read_past_the_end": (
        "memcheck",
        READ,
        "        ok[i] = w[i + 1] > 3",
        "reads w[70], but axis 0 has size 70",
        ("w", [70], [2, 0, 0], [5, 0, 0]),
    ),
    "write_past_the_end": (
        "memcheck",
        STORE,
        "        y[i + 3] = s[t] * 2",
        "writes y[70], but axis 0 has size 70",
        ("y", [70], [2, 0, 0], [3, 0, 0]),
    ),
    "write_before_the_start": (
        "memcheck",
        STORE,
        "        y[i - 70 if i else -71] = s[t] * 2",
        "writes y 1 element before its start (axis 0 has size 70)",
        ("y", [-1], [0, 0, 0], [0, 0, 0]),
    ),
    "atomic_past_the_end": (
        "memcheck",
        STORE,
        "        cuda.atomic.add(y, i + 1, s[t] * 2)",
        "updates y[70], but axis 0 has size 70",
        ("y", [70], [2, 0, 0], [5, 0, 0]),
    ),
    "far_away": (
        "memcheck",
        STORE,
        "        y[i + (1 << 40)] = s[t] * 2",
        f"writes y[{1 << 40}], but axis 0 has size 70",
        None,
    ),
    "shared_past_the_end": (
        "memcheck",
        LOAD,
        "        s[i] = x[i]",
        "writes s[32], but axis 0 has size 32",
        (None, None, [1, 0, 0], [0, 0, 0]),
    ),
    "local_past_the_end": (
        "memcheck",
        STORE,
        LOCAL + "        y[i] = s[t] * a[n - 40]",
        "reads a[30], but axis 0 has size 4",
        (None, None, [0, 0, 0], [0, 0, 0]),
    ),
    "barrier_that_some_leave_out": (
        "synccheck",
        SYNC,
        "    if t < 16: cuda.syncthreads()",
        "16 skipped it and exited",
        None,
    ),
    "two_barriers": (
        "synccheck",
        SYNC,
        "    if t < 16: cuda.syncthreads()\n    else:\n        cuda.syncthreads()\n        s[t] += 0",
        "16 of 32 threads wait at this barrier, 16 at the one on line",
        None,
    ),
    "input_changed": ("mutated", READ, READ + "; x[i] = 12345", "input x was changed in 70 of 70", None),
    "not_written": ("unwritten", READ, "        ok[i - i % 2] = True", "35 of 70 elements of ok were never", None),
    "type_error": ("compile", STORE, "        y[i] = s.no_such_attribute", "does not compile", None),
    "wrong_result": (None, STORE, "        y[i] = s[t] * 3", "", None),
}


def runs(project: CpuProject, tables: dict[str, str]) -> None:
    """Add a spec per kernel."""
    for name, kernel in tables.items():
        project.add(name, SPEC, kernel, REFERENCE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CpuProject:
    """Every kernel of the table, and its clean twin first and last."""
    made = CpuProject(tmp_path_factory.mktemp("findings") / "a project")
    runs(made, {"a_clean": CLEAN, "z_clean": CLEAN})
    for name, (_, clean, buggy, _, _) in BUGS.items():
        assert CLEAN.count(clean) == 1
        runs(made, {name: CLEAN.replace(clean, buggy)})
    return made


@pytest.fixture(scope="module")
def report(project: CpuProject, tmp_path_factory: pytest.TempPathFactory):
    """What ``kcheck run`` says of them all, in one process."""
    return project.report(KCHECK_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))


def findings(report, name):
    """(status, findings) of the only case of a spec."""
    (case,) = report[name]["cases"]
    return case["status"], case["findings"]


@pytest.mark.parametrize("name", ["a_clean", "z_clean"])
def test_a_correct_kernel_has_no_finding(report, name):
    """The clean twin passes, before all the bugs and after them."""
    assert findings(report, name) == ("passed", [])
    assert report[name]["notes"] == []


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found_by_its_rule(project, report, name):
    """One changed line makes the finding of its kind, with array, index, block, thread and that very line."""
    rule, clean, buggy, says, who = BUGS[name]
    status, found = findings(report, name)
    assert status == "failed"
    if rule is None:
        assert found == []
        return
    finding, *others = found
    assert all("; only with the threads in " in other["message"] for other in others)
    assert finding["rule"] == rule
    assert says in finding["message"]
    if rule in ("memcheck", "synccheck"):
        lines = CLEAN.replace(clean, buggy).splitlines()
        assert project.line(name, finding) in {line.strip() for line in lines} - {""}
        assert project.line(name, finding) in buggy + "\n" + SYNC
        assert finding["kernel"] == "op"
        assert finding["block"] is not None
        assert finding["thread"] is not None
    if who is not None:
        assert (finding["array"], finding["index"], finding["block"], finding["thread"]) == who


UNROLLED = """
@cuda.jit
def op(x, w, y, ok, n):
    i = cuda.grid(1)
    if i < n:
        ok[i] = w[i] > 3
        y[i] = 2 * x[i]
        for k in range(4):
            y[i] += 0 * x[i + k + 1] + 0 * float32(w[i + k])
"""
UNORDERED = CLEAN.replace(f"{SYNC}\n", "").replace("s[t] * 2", "s[31 - t] * 2")


def test_a_line_is_told_once_for_each_array(tmp_path):
    """A compiler makes four loads of one in a loop that it unrolls: one finding, with how often it was seen."""
    project = CpuProject(tmp_path / "a project")
    project.add("op", SPEC, UNROLLED, REFERENCE)
    _, found = findings(project.report(), "op")
    assert sorted((f["rule"], f["array"]) for f in found) == [("memcheck", "w"), ("memcheck", "x")]
    assert all(f["count"] > 1 for f in found)
    assert {project.line("op", f) for f in found} == {"y[i] += 0 * x[i + k + 1] + 0 * float32(w[i + k])"}


def test_a_race_is_told_before_what_it_leaves_unwritten(tmp_path):
    """What was read too early was not written yet either: the missing barrier is the cause, and comes first."""
    project = CpuProject(tmp_path / "a project")
    project.add("op", SPEC.replace("racecheck: off, initcheck: off, ", ""), UNORDERED, REFERENCE)
    _, found = findings(project.report(), "op")
    told = [f["rule"] for f in found if f["rule"] in ("racecheck", "initcheck")]
    assert told == ["racecheck", "initcheck"]
