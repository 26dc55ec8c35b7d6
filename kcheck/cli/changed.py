"""The files that a change touches, by git: what a run with a time budget checks first."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcheck.model import OpSpec, SpecRefused

_BASES = ("CI_MERGE_REQUEST_DIFF_BASE_SHA", "GITHUB_BASE_REF")
"""Variables of GitLab and GitHub: the commit, or the branch, that a merge or pull request is compared with."""


def changed_first(
    specs: Sequence[OpSpec | SpecRefused], folder: Path, environ: Mapping[str, str]
) -> tuple[OpSpec | SpecRefused, ...]:
    """Move refused specs, which take no time, and specs that a change touches to the front; otherwise keep the
    order.

    Args:
        folder: a folder of the checkout. Outside a checkout, or without git, only refused specs move.
    """
    changed = changed_files(folder, environ)
    return tuple(sorted(specs, key=lambda spec: isinstance(spec, OpSpec) and not _uses(spec, changed)))


def changed_files(folder: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """Real paths of the files that differ from the base of the change, committed or not.

    The base is the merge base with the target branch of the pull request, or with the default branch of the
    remote. On the default branch itself, it is the previous commit. A shallow clone may have neither; then only
    uncommitted files count.
    """
    top = _git(folder, "rev-parse", "--show-toplevel").strip()
    if not top:
        return frozenset()
    names = _git(folder, "diff", "--name-only", "-z", _base(folder, environ), "--", top)
    names += _git(folder, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", top)
    return frozenset(os.path.realpath(Path(top, name)) for name in names.split("\0") if name)


def _base(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit to compare with; HEAD if no other is known."""
    asked = [environ[name] for name in _BASES if environ.get(name)]
    for branch in (*asked, *(f"origin/{name}" for name in asked), "origin/HEAD"):
        base = _git(folder, "merge-base", "HEAD", branch).strip()
        if base and base != _git(folder, "rev-parse", "HEAD").strip():
            return base
    return _git(folder, "rev-parse", "--verify", "--quiet", "HEAD~1").strip() or "HEAD"


def _uses(spec: OpSpec, changed: frozenset[str]) -> bool:
    """Whether a spec, or a file that it names, is among the changed files. Does not follow imports, which would
    take a tenth of a second per spec."""
    named = {spec.path, spec.runs.path, *(function.path for function in spec.functions)}
    return any(os.path.realpath(os.path.join(spec.root, name)) in changed for name in named)


def _git(folder: Path, *words: str) -> str:
    """What git prints; empty if it fails, or is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)
    except OSError:
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""
