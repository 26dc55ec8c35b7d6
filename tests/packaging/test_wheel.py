"""The wheel stands alone: built from the sdist and installed elsewhere, it runs a spec of another folder."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SPEC = """\
kcheck: 1
op: double
kernel: kernels/double.py:double
reference: references/double.py:double
dims: {N: 1..70}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 3}
"""
KERNEL = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]
"""
REFERENCE = """\
def double(x):
    return 2 * x
"""


def test_the_wheel_registers_the_pytest_plugin(installed: Path) -> None:
    """pytest finds the plug-in by its entry point."""
    code = "from importlib.metadata import entry_points as e; print([p.value for p in e(group='pytest11')])"
    assert run(installed / "python", "-c", code, cwd=installed).stdout == "['kcheck.pytest_plugin']\n"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of the checkout."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA_", "KCHECK_"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("kcheck-*.whl")
    venv.create(folder / "env with a space", with_pip=True, symlinks=True)
    scripts = folder / "env with a space" / "bin"
    pip = run(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    assert pip.returncode == 0, pip.stderr
    return scripts


@pytest.mark.slow
def test_the_description_links_to_the_repository(installed: Path) -> None:
    """On PyPI there is no file beside the README that a relative link could lead to."""
    code = "from importlib.metadata import metadata; print(metadata('kcheck')['Description'])"
    links = re.findall(r"\]\(([^)]*)\)", run(installed / "python", "-c", code, cwd=installed).stdout)
    assert "https://github.com/kcheck/kcheck/blob/main/docs/spec.md" in links
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.slow
def test_schema_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    """`kcheck schema` prints the schema that stands at the checkout's top level."""
    printed = run(installed / "kcheck", "schema", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout) == json.loads((ROOT / "schema/op-spec.schema.json").read_text("utf-8"))


@pytest.mark.slow
def test_a_spec_from_another_folder_runs(installed: Path, tmp_path: Path) -> None:
    """A project elsewhere, run from a folder that is not its root, passes with the wheel alone."""
    project = tmp_path / "a project"
    for path, text in {
        "kcheck.yaml": "",
        "specs/double.yaml": SPEC,
        "kernels/double.py": KERNEL,
        "references/double.py": REFERENCE,
    }.items():
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    ran = run(installed / "kcheck", "run", "a project/specs/double.yaml", "--device", "simulator", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "double" in ran.stdout
