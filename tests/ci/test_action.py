"""``action.yml`` and the CI templates: valid, and in a real repository they block a bug and pass its fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from action_runner import Ran, run_action
from forked_python import environment, run_module

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "tests/report/schemas"
ACTION = ROOT / "action.yml"
KERNEL = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]
"""
SPEC = """\
kcheck: 1
op: double
kernel: kernels/k.py:double
reference: references/r.py:double
dims: {N: [1, 2, 5]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [8]}
cases: {count: 2}
"""
GH = """\
#!/bin/sh
echo "$@" >> "$CALLS"
case "$1 $2" in
  "run list") [ -f "$SAVED" ] && echo 41 ;;
  "run download") mkdir -p baselines && cp "$SAVED" baselines/ ;;
esac
"""


def validate(document: Any, schema: str) -> None:
    jsonschema.Draft7Validator(json.loads((SCHEMAS / schema).read_text("utf-8"))).validate(document)


def git(folder: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


class Repository:
    """A user's repository on GitHub, as the runner sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.temporary = folder / "temporary"
        self.saved = folder / "ci-main.json"
        self.calls = folder / "calls"
        self.summary = folder / "summary"
        tools = folder / "tools"
        for path, text in (
            ("kernels/k.py", KERNEL),
            ("references/r.py", "def double(x):\n    return x * 2\n"),
            ("specs/double.yaml", SPEC),
            ("kcheck.yaml", ""),
        ):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        for made in (self.temporary, tools):
            made.mkdir()
        (tools / "gh").write_text(GH)
        (tools / "kcheck").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kcheck "$@"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        git(self.folder, "init", "-q", "-b", "main")
        self.environ = {
            **{key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"},
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "CALLS": str(self.calls),
            "SAVED": str(self.saved),
        }

    def commit(self, kernel: str) -> None:
        (self.folder / "kernels/k.py").write_text(kernel)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "change")

    def action(self, event: str, branch: str, **inputs: str) -> Ran:
        self.calls.write_text("")
        self.summary.write_text("")
        github = {
            "event_name": event,
            "ref_name": branch,
            "sha": "0" * 40,
            "workflow": "kcheck",
            "token": "secret",
            "repository": "a/b",
            "event": {"repository": {"default_branch": "main"}, "pull_request": {"number": 7}},
        }
        given = {"install": "", "python-version": "", "quick": "true", **inputs}
        return run_action(ACTION, given, github, self.environ, self.folder)


def test_the_action_is_valid() -> None:
    """By SchemaStore's schema of GitHub actions; no input is pasted into a script, where it could be code."""
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    for step in action["runs"]["steps"]:
        step.pop(
            "continue-on-error", None
        )  # in GitHub's "Metadata syntax", and newer than this copy of the schema
    validate(action, "github-action.json")
    assert not [step["name"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")]


@pytest.mark.slow
def test_the_steps_block_a_planted_bug_and_pass_its_fix(tmp_path: Path) -> None:
    """On main the baseline is saved; a pull request with a bug fails and says why; without it, it passes."""
    repository = Repository(tmp_path)
    repository.commit(KERNEL)
    ran = repository.action("push", "main")
    assert ran.failed == [], ran.log
    kept = ran.used["actions/upload-artifact@v4"]
    assert kept == {"name": "kcheck-reports", "path": str(repository.temporary / "kcheck-reports")}
    (repository.folder / "baselines/ci-main.json").rename(repository.saved)

    git(repository.folder, "checkout", "-q", "-b", "change")
    repository.commit(KERNEL.replace("x[i] + x[i]", "x[i] * 3"))
    ran = repository.action("pull_request", "7/merge")
    assert ran.failed == ["Check"]
    assert "::error file=kernels/k.py,line=" in ran.log
    assert "Compared with the baseline of run 41." in ran.log
    assert "1 of 1 spec failed" in repository.summary.read_text()
    sarif = Path(ran.used["github/codeql-action/upload-sarif@v3"]["sarif_file"])
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 1
    comment = (sarif.parent / "comment.md").read_text()
    assert "## kcheck: 1 of 1 spec failed" in comment
    assert "### Worse than the baseline" in comment
    assert "pr comment 7 --repo a/b --body-file" in repository.calls.read_text()

    repository.commit(KERNEL.replace("x[i] + x[i]", "2 * x[i]"))
    ran = repository.action("pull_request", "7/merge")
    assert ran.failed == [], ran.log
    assert "Comment" in ran.steps
    assert "Save the baseline" not in ran.steps


def test_templates_are_valid_and_run_kcheck_ci(tmp_path: Path) -> None:
    """By the schemas of GitHub workflows and GitLab CI; `kcheck init --ci` writes them and overwrites nothing."""

    def init(host: str) -> subprocess.CompletedProcess[str]:
        return run_module(("kcheck", "init", "--ci", host), tmp_path, environment(), seconds=60)

    for host, file, schema in (
        ("github", ".github/workflows/kcheck.yml", "github-workflow.json"),
        ("gitlab", "kcheck.gitlab-ci.yml", "gitlab-ci.json"),
    ):
        result = init(host)
        assert (result.returncode, result.stdout) == (0, f"created {file}\n")
        text = (tmp_path / file).read_text()
        validate(yaml.safe_load(text.replace("\non:", '\n"on":')), schema)
        assert "kcheck ci\n" in text
        again = init(host)
        assert (again.returncode, "already exists; nothing was written" in again.stderr) == (2, True)


def test_the_action_installs_several_packages(tmp_path: Path) -> None:
    """`install` is a list of words, and brackets are no pattern of the shell."""
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    steps = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]
    script = next(step["run"] for step in steps if step.get("name") == "Install")
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "INSTALL": "kcheck[cu13,triton] scipy"}
    done = subprocess.run(["bash", "-ec", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["kcheck[cu13,triton]", "scipy"]


def test_the_ci_job_installs_what_the_specs_import(tmp_path: Path) -> None:
    """Triton's kernels need the extra, and kernels with cuRAND its headers."""
    for path, text in (
        ("kernels/k.py", "import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n"),
        ("kernels/k.cu", "#include <curand_kernel.h>\n__global__ void k(float* x) {}\n"),
        ("specs/a.yaml", SPEC.replace("k.py:double", "k.py:k")),
        ("specs/b.yaml", SPEC.replace("op: double", "op: other").replace("k.py:double", "k.cu:k")),
        ("kcheck.yaml", ""),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    run_module(("kcheck", "init", "--ci", "github"), tmp_path, environment(), seconds=60)
    written = (tmp_path / ".github/workflows/kcheck.yml").read_text()
    assert "pip install 'kcheck[cu13,triton]' 'nvidia-curand'" in written


def test_every_path_that_a_template_names_is_written_by_kcheck_ci() -> None:
    """Reports are looked for where they are."""
    from kcheck.cli.ci import COMMENT, REPORTS

    for name in ("github", "gitlab"):
        text = (ROOT / f"kcheck/cli/templates/{name}.yml").read_text("utf-8")
        named = {word.rpartition("/")[2] for word in text.split() if word.startswith("kcheck-reports/")}
        assert named
        assert named <= {COMMENT, *REPORTS.values()}
