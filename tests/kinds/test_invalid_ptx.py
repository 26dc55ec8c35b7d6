"""PTX files with an error, as the PTX assembler would report it: the kernel does not compile."""

from __future__ import annotations

import pytest
from kinds_project import KindsProject
from test_cuda_kernels import PTX

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

ERRORS = {
    # op: (the line, what the message says)
    "label": ("bra $NOWHERE;", "does not compile: label $NOWHERE is not defined in twice"),
    "register": ("mov.u32 %r77, 1;", "does not compile: register %r77 is not declared"),
}
UNSUPPORTED = "mov.u32.hasty %r1, 1;"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """A project with one PTX file for each error, and a correct one."""
    made = KindsProject(tmp_path_factory.mktemp("ptx") / "a project")
    lines = {**{op: line for op, (line, _) in ERRORS.items()}, "unsupported": UNSUPPORTED, "right": ""}
    for op, line in lines.items():
        made.write(f"kernels/{op}.ptx", PTX.replace("ret;", line + "\n    ret;"))
        made.spec(op, f"kernel: kernels/{op}.ptx:twice")
    return made


@pytest.fixture(scope="module")
def report(project: KindsProject):
    return project.report()


def place_of(project: KindsProject, op: str, line: str) -> dict[str, object]:
    lines = (project.root / f"kernels/{op}.ptx").read_text().splitlines()
    return {"file": f"kernels/{op}.ptx", "line": 1 + [text.strip() for text in lines].index(line), "column": 1}


@pytest.mark.parametrize("op", ERRORS)
def test_an_error_in_a_ptx_file_fails_the_case_at_its_line(project: KindsProject, report, op: str) -> None:
    """One finding, in the file, with a path relative to the project; the other specs run."""
    line, message = ERRORS[op]
    for case in report[op]["cases"]:
        (finding,) = case["findings"]
        assert (case["status"], finding["rule"], finding["message"]) == ("failed", "compile", message)
        assert finding["place"] == place_of(project, op, line)
    assert {case["status"] for case in report["right"]["cases"]} == {"passed"}


def test_such_a_run_fails_as_for_any_kernel_that_does_not_compile(project: KindsProject) -> None:
    """Exit code 1, and the line is shown."""
    run = project.kcheck("run", "specs/label.yaml", "--device", "cpu")
    assert run.returncode == 1
    assert "bra $NOWHERE;" in run.stdout
    assert str(project.root) not in run.stdout


def test_what_the_cpu_device_does_not_support_is_at_its_line(project: KindsProject, report) -> None:
    """With a relative path."""
    (finding, *_) = report["unsupported"]["cases"][0]["findings"]
    assert finding["rule"] == "unsupported"
    assert str(project.root) not in finding["message"]
    assert finding["place"] == place_of(project, "unsupported", UNSUPPORTED)
