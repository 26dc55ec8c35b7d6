"""The environment that a code host's CI sets.
GitHub Actions displays annotations and a summary if a job writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kcheck.cli.outputs import ReportOutput


def checkout(start: Path) -> Path:
    """The root of the git checkout that a folder is in; the folder itself if it is in none."""
    folder = start.resolve()
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def with_annotations(outputs: Sequence[ReportOutput], environ: Mapping[str, str]) -> tuple[ReportOutput, ...]:
    """The reports of a run. On GitHub Actions,
    adds annotations on stderr unless the user requested them already."""
    on_github = environ.get("GITHUB_ACTIONS") == "true"
    if not on_github or any(output.format == "github" for output in outputs):
        return tuple(outputs)
    return (*outputs, ReportOutput("github", None, to_stderr=True))


def step_summary(environ: Mapping[str, str]) -> Path | None:
    """The file for the summary of the current GitHub Actions step; None outside GitHub Actions."""
    file = environ.get("GITHUB_STEP_SUMMARY", "")
    return Path(file) if file else None
