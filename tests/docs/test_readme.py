"""What the README and the page of commands say to type works, and what the README shows is what is printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import readme_sample

from kcheck.specfile import load_spec

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    """The fenced blocks of a language on a page, in order."""
    found: list[str] = []
    inside: str | None = None
    for line in page.splitlines(keepends=True):
        if line.startswith("```"):
            inside = line[3:].strip() if inside is None else None
            if inside == language:
                found.append("")
        elif inside == language:
            found[-1] += line
    return found


def commands() -> list[str]:
    """Every line that starts with `kcheck ` in a block of commands, its comment taken off; each once."""
    texts = [*blocks(""), *blocks("", COMMANDS)]
    lines = [line for block in texts for line in block.splitlines() if re.match(r"kcheck [a-z]", line)]
    return list(dict.fromkeys(re.split(r"\s{2,}#", line)[0].strip() for line in lines))


PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

x = cuda.to_device(np.ones(32, np.float32))
double[1, 32](x)
assert (x.copy_to_host() == 2).all()
"""

# kcheck run -r meets the buggy specs, and is to fail on them; the good softmax passes, and cannot be made smaller.
EXITS = {"kcheck run specs/ -r -t buggy": 1, "kcheck minimize 17447113406779214469 --op softmax": 5}


KEPT = ("attention", "matmul", "softmax", "matmul_griddim", "softmax_pad_zero")
"""What is left of the specs: each is a compilation, and the commands are the same for all."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the specs and what they use, with few cases and no artifact, so that every command is quick."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "kcheck.yaml").write_text("")
    (folder / "script.py").write_text(PROGRAM)
    for name in ("specs", "kernels", "references"):
        shutil.copytree(ROOT / name, folder / name)
    for spec in folder.glob("specs/**/*.yaml"):
        if spec.stem not in KEPT:
            spec.unlink()
            continue
        text = re.sub(r"count: \d+", "count: 2", spec.read_text("utf-8"))
        text = re.sub(r"^artifact:\n( .*\n)+", "", text, flags=re.MULTILINE)
        spec.write_text(text, "utf-8")
    return folder


def kcheck(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a `kcheck` command line as a shell would, with this checkout's code."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -m {line}"]
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def test_commands_are_found() -> None:
    """The pages have the commands that this file is about."""
    assert len(commands()) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("line", commands())
def test_every_command_runs(line: str, checkout: Path) -> None:
    """Each ends with the exit code that the page's table gives it."""
    ran = kcheck(line, checkout)
    assert ran.returncode == EXITS.get(line, 0), ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_sample_is_what_is_printed() -> None:
    """The README's first screen is the report of the command above it, times aside; ``make readme`` writes it."""
    command, shown = readme_sample.sample()
    assert readme_sample.timeless(readme_sample.printed(command)) == readme_sample.timeless(shown)


def test_the_sample_is_one_bug_in_at_most_15_lines() -> None:
    """Its paragraph has the source line, the condition, the smallest case and the line that replays it."""
    _, shown = readme_sample.sample()
    (bug,) = (text for text in shown.split("\n\n") if text.startswith("  "))
    assert len(bug.splitlines()) <= 15
    assert max(map(len, shown.splitlines())) <= 80
    for part in (" │ ", "\n  cases  ", "\n  smallest  ", "\n  replay"):
        assert part in bug


def test_the_smallest_spec_is_valid(tmp_path: Path) -> None:
    """The spec in the README can be copied as it stands."""
    (text,) = (block for block in blocks("yaml") if block.startswith("kcheck: 1"))
    for folder, head in (("kernels", "from numba import cuda\n\n@cuda.jit\n"), ("references", "")):
        (tmp_path / folder).mkdir()
        arguments = "x, y" if folder == "kernels" else "x"
        (tmp_path / folder / "softmax.py").write_text(f"{head}def softmax({arguments}):\n    pass\n")
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "specs").mkdir()
    spec = tmp_path / "specs" / "softmax.yaml"
    spec.write_text(text)
    assert load_spec(spec).op == "softmax"


@pytest.mark.slow
def test_the_kernel_reference_and_spec_pass_as_shown(tmp_path: Path) -> None:
    """A new user copies the three into a folder and runs them."""
    (spec,) = (block for block in blocks("yaml") if block.startswith("kcheck: 1"))
    for text in (*blocks("python"), f"# specs/softmax.yaml\n{spec}"):
        file = tmp_path / text.partition("\n")[0].removeprefix("# ")
        file.parent.mkdir()
        file.write_text(text)
    (tmp_path / "kcheck.yaml").write_text("")
    ran = kcheck("kcheck run --cases 4", tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
