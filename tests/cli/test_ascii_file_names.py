"""Python that reads and writes file names as ASCII, as in the C locale without UTF-8 mode; other names."""

from __future__ import annotations

from pathlib import Path

from small_project import Kcheck

ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
FIX = "set PYTHONUTF8=1, or a UTF-8 locale such as LC_ALL=C.UTF-8"


def test_a_kernel_that_python_cannot_open_is_an_error_of_its_spec(kcheck: Kcheck, project: Path) -> None:
    """With the place of the path, the reason and the fix; it was an internal error."""
    (project / "kernels/k.py").rename(project / "kernels/größe.py")
    spec = project / "specs/good.yaml"
    spec.write_text(spec.read_text().replace("kernels/k.py", "kernels/größe.py"), encoding="utf-8")
    done = kcheck.start("validate", "specs/good.yaml", **ASCII)
    told = done.stderr + done.stdout
    assert done.returncode == 2
    assert told.startswith("specs/good.yaml:")
    assert "cannot be opened: Python reads and writes file names as ascii here; " + FIX in told
    assert kcheck.start("validate", "specs/good.yaml", PYTHONUTF8="1").returncode == 0


def test_a_spec_with_such_a_name_is_an_error_with_the_same_fix(kcheck: Kcheck, project: Path) -> None:
    """The store cannot hold its name."""
    (project / "specs/good.yaml").rename(project / "specs/größe.yaml")
    done = kcheck.start("run", "--store", "--device", "simulator", "specs/größe.yaml", **ASCII)
    assert done.returncode == 2, done.stderr
    assert FIX in done.stderr
    assert "internal error" not in done.stderr
