"""Files as editors on Windows write them: with CRLF and a byte-order mark."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds_project import KindsProject
from test_cuda_kernels import DOUBLE, PTX

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

NUMBA = """
from numba import cuda

@cuda.jit
def twice(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]
"""
FILES = {
    "kernels/plain.cu": DOUBLE,
    "kernels/with_header.cu": '#include "factor.h"\n' + DOUBLE.replace("2 *", "FACTOR *"),
    "include/factor.h": "#define FACTOR \\\n  2\n",
    "kernels/plain.ptx": PTX,
    "kernels/plain.py": NUMBA,
}


def as_on_windows(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """The same kernel in every kind of file, right and without its guard."""
    project = KindsProject(tmp_path_factory.mktemp("windows") / "p")
    (project.root / "kcheck.yaml").write_text("cases: 4\n")
    for name, text in FILES.items():
        project.write(name, text)
    for name in ("plain.cu", "with_header.cu"):
        wrong = (project.root / "kernels" / name).read_text().replace("if (i < n) ", "")
        project.write(f"kernels/wrong_{name}", wrong)
    project.write("kernels/wrong_plain.py", NUMBA.replace("if i < n", "if i < 10000"))
    for file in sorted((project.root / "kernels").iterdir()):
        include = "compile: {include: [include]}\n" if "header" in file.name else ""
        project.spec(file.name.replace(".", "_"), f"kernel: kernels/{file.name}:twice\n{include}")
    for file in project.root.rglob("*.*"):
        as_on_windows(file)
    header = project.root / "include/factor.h"
    (project.root / "include/marked.h").write_bytes(header.read_bytes())
    header.write_bytes(header.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    return project


def test_a_kernel_is_checked_as_its_twin_with_unix_lines(project: KindsProject) -> None:
    found = project.report()
    assert {op: spec["status"] for op, spec in found.items()} == {
        "plain_cu": "passed",
        "plain_ptx": "passed",
        "plain_py": "passed",
        "with_header_cu": "passed",
        "wrong_plain_cu": "failed",
        "wrong_plain_py": "failed",
        "wrong_with_header_cu": "failed",
    }
    places = {
        op: {(finding["rule"], finding["place"]["line"]) for case in spec["cases"] for finding in case["findings"]}
        for op, spec in found.items()
    }
    assert places["wrong_plain_cu"] == {("memcheck", 3)}
    assert places["wrong_plain_py"] == {("memcheck", 7)}
    assert places["wrong_with_header_cu"] == {("memcheck", 5)}


def test_a_header_with_a_byte_order_mark_compiles(project: KindsProject) -> None:
    text = FILES["kernels/with_header.cu"].replace("factor.h", "marked.h")
    project.write("kernels/with_marked.cu", text)
    spec = project.spec("marked", "kernel: kernels/with_marked.cu:twice\ncompile: {include: [include]}\n")
    assert project.report(str(spec))["marked"]["status"] == "passed"


def test_lint_reads_a_ptx_file(project: KindsProject) -> None:
    done = project.kcheck("lint", "--ptx", "kernels/plain.ptx", "--block", "64")
    assert done.returncode == 0, done.stderr
    assert "1 specialization of 1 kernel: 0 violations, 0 warnings" in done.stdout
