"""Exit codes, a contract with scripts and CI, each shown by a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.cli.exits import Exit, worst

RUN = ("run", "--device", "simulator", "--cases", "1")
TABLE = [
    ((*RUN, "specs/good.yaml"), 0),
    ((*RUN, "specs/good.yaml", "specs/buggy/bad.yaml"), 1),
    ((*RUN, "specs/broken/typo.yaml"), 2),
    ((*RUN, "specs/broken/lost.yaml"), 2),
    ((*RUN, "specs/buggy/bad.yaml", "specs/broken/typo.yaml"), 2),
    ((*RUN, "specs/good.yaml", "-k", "absent"), 5),
    ((*RUN, "-t", "absent"), 5),
    ((*RUN, "kernels/unused.py"), 5),
    ((*RUN, "nowhere.yaml"), 2),
    ((*RUN, "specs/good.yaml", "-k", "("), 2),
    ((*RUN, "specs/good.yaml", "--device", "tpu"), 2),
    ((*RUN, "specs/good.yaml", "--touched"), 0),
    ((*RUN, "specs/buggy/bad.yaml", "--touched"), 1),
    ((*RUN, "kernels/unused.py", "--touched"), 0),
    ((*RUN, "gone.py", "kcheck.yaml", "--touched"), 0),
    ((*RUN, "--touched"), 0),
    (("validate", "specs"), 0),
    (("validate", "specs/broken"), 2),
    (("validate", "kernels"), 5),
    (("validate",), 0),
    (("validate", "--touched"), 0),
    (("validate", "kernels/unused.py", "gone.py", "kcheck.yaml", "--touched"), 0),
    (("validate", "specs/broken/typo.yaml", "kernels/unused.py", "--touched"), 2),
    (("cases", "specs/good.yaml"), 0),
    (("cases", "specs/good.yaml", "-k", "absent"), 5),
    (("cases", "specs/broken/typo.yaml"), 2),
    (("schema",), 0),
    (("schema", "report"), 0),
    (("schema", "nonsense"), 2),
    (("--version",), 0),
    (("--help",), 0),
    ((), 2),
    (("rum",), 2),
    (("run", "--case-seed", "-1"), 2),
    (("run", "--case-seed", "0x10000000000000000"), 2),
    (("run", "--case-seed", "1", "--seed", "2"), 2),
    (("run", "--timeout", "nan"), 2),
    (("run", "--cases", "-1"), 2),
    (("run", "-v", "-q"), 2),
]


@pytest.mark.parametrize(
    ("arguments", "code"),
    TABLE,
    ids=lambda value: " ".join(value) if value != () and isinstance(value, tuple) else None,
)
def test_exit_code(kcheck: Kcheck, arguments: tuple[str, ...], code: int) -> None:
    """Each ending has its code, and no ending shows a traceback."""
    done = kcheck(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], Exit.GOOD),
        ([Exit.NOTHING, Exit.GOOD], Exit.NOTHING),
        ([Exit.NOTHING, Exit.FAILED], Exit.FAILED),
        ([Exit.FAILED, Exit.USAGE], Exit.USAGE),
        ([Exit.USAGE, Exit.FAULT], Exit.FAULT),
        (list(Exit), Exit.INTERRUPTED),
    ],
)
def test_worst_ending_wins(codes: list[Exit], code: Exit) -> None:
    """130 before 3 before 2 before 1 before 5 before 0."""
    assert worst(codes) is code


def test_fault_of_kcheck_leaves_a_log(kcheck: Kcheck, project: Path) -> None:
    """An internal error exits with 3 and names a log that has the traceback, the versions and the command."""
    (project / "sitecustomize.py").write_text(
        "import kcheck.specfile\n"
        "def load_spec(path, profile): raise ZeroDivisionError('planted')\n"
        "kcheck.specfile.load_spec = load_spec\n"
    )
    done = kcheck("validate", "specs/good.yaml", PYTHONPATH=f"{project}:{kcheck.environment['PYTHONPATH']}")
    assert done.returncode == 3
    assert done.stderr.startswith("kcheck: internal error: ZeroDivisionError: planted\n")
    found = re.search(r"kcheck: please report it and attach (\S+)", done.stderr)
    assert found is not None
    log = (project / found[1]).read_text()
    for part in (
        "Traceback",
        "ZeroDivisionError: planted",
        "command: kcheck validate specs/good.yaml",
        "numba-cuda: 0.",
    ):
        assert part in log


def test_fault_log_goes_elsewhere_if_it_cannot_be_here(kcheck: Kcheck, project: Path, tmp_path: Path) -> None:
    """Where no .kcheck folder can be made, the log is in the temporary folder."""
    (project / ".kcheck").write_text("a file in the way")
    (project / "sitecustomize.py").write_text("import kcheck.specfile\nkcheck.specfile.load_spec = None\n")
    path = f"{project}:{kcheck.environment['PYTHONPATH']}"
    done = kcheck("validate", "specs/good.yaml", PYTHONPATH=path, TMPDIR=str(tmp_path))
    assert done.returncode == 3
    assert len(list(tmp_path.glob("kcheck-fault-*.log"))) == 1


def test_interrupt_leaves_reports_and_exits_130(kcheck: Kcheck, project: Path) -> None:
    """Ctrl-C ends the run with 130; the report says what was done and that the rest was not."""
    import json

    spec = project / "specs/good.yaml"
    spec.write_text(spec.read_text().replace("count: 2", "count: 5000"))
    report = project / "r.json"
    process = subprocess.Popen(
        kcheck.command("run", "--device", "simulator", "specs/good.yaml", "--format", "json", "-o", "r.json"),
        cwd=project,
        env=kcheck.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not any(part.stat().st_size > 4000 for part in project.glob(".r.json.*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not report.exists()  # it appears whole or not at all
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "interrupted" in out
    document = json.loads(report.read_text())
    assert document["summary"]["interrupted"]
    assert document["summary"]["passed"] == len(document["specs"][0]["cases"]) > 0
    assert document["summary"]["skipped"] > 0
    assert not list(project.glob(".r.json.*"))


@pytest.mark.parametrize(
    "arguments", [("cases", "specs/good.yaml", "--cases", "3000"), ("schema",), (*RUN, "specs")]
)
def test_closed_pipe_is_no_fault(kcheck: Kcheck, arguments: tuple[str, ...]) -> None:
    """``kcheck ... | head -0``: whoever reads has gone, and nothing is said about it."""
    process = subprocess.Popen(
        kcheck.command(*arguments),
        cwd=kcheck.folder,
        env=kcheck.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) in (0, 141)
    assert "rror" not in err
    assert "BrokenPipe" not in err
