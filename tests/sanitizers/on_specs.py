"""Runs twins with their specs in a process on the cpu device, as ``kcheck run`` does, and says what was found."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from pairs import buggy

FOLDER = Path(tempfile.mkdtemp(prefix="kcheck-specs-"))
DEFAULT = {
    "kcheck": 1,
    "dims": {"N": [70]},
    "inputs": {"x": ["N"]},
    "outputs": {"y": ["N"]},
    "reference": "doubled",
    "launch": {"args": ["x", "y", "N"], "grid": ["ceildiv(N, 32)"], "block": [32]},
    "cases": {"count": 1},
}


def device() -> Any:
    """The device as the command line makes it."""
    from kcheck.device.choose import choose

    return choose("cpu")


def answer(device: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What became of one twin: its status, its findings in their order.

    Args:
        request: ``module``, the path of a file of pairs; ``name``; ``buggy``, which twin; ``spec``, what its
            docstring says beyond its first line.
    """
    from kcheck.model import CaseFinished, SpecFinished
    from kcheck.runner import Options, run
    from kcheck.specfile import load_spec

    file = _module(Path(request["module"]), request["buggy"])
    spec = file.with_name(f"{request['name']}.yaml")
    spec.write_text(_spec(request["name"], file.name, request["spec"]), encoding="utf-8")
    findings, statuses = [], []
    for event in run([load_spec(spec)], Options(), device):
        if isinstance(event, CaseFinished):
            statuses.append(event.verdict.status.value)
            findings += event.verdict.findings
        elif isinstance(event, SpecFinished):
            findings += event.findings
        elif type(event).__name__ == "SpecRefused":
            raise AssertionError(event)
    told = [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "message": finding.message,
            "array": finding.array,
            "line": finding.place.line if finding.place is not None else None,
            "other_line": finding.other_place.line if finding.other_place is not None else None,
            "file": str(Path(finding.place.file).resolve()) if finding.place is not None else None,
        }
        for finding in findings
    ]
    return {"findings": told, "raised": None, "statuses": statuses, "file": str(file)}


def _module(source: Path, is_buggy: bool) -> Path:
    """The file of one kind of twins, in a project of its own."""
    project = FOLDER / f"{source.stem}_{'buggy' if is_buggy else 'clean'}"
    file = project / source.name
    if not file.exists():
        project.mkdir()
        (project / "kcheck.yaml").write_text("")
        text = source.read_text(encoding="utf-8")
        file.write_text(buggy(text) if is_buggy else text, encoding="utf-8")
    return file


def _spec(name: str, file: str, text: str) -> str:
    """The spec of a twin: the default with what its docstring says in place of it."""
    own = yaml.safe_load(text) or {}
    spec = {**DEFAULT, "op": name, **own}
    if "launcher" in own:
        del spec["launch"]
        spec["launcher"] = f"{file}:{spec['launcher']}"
    else:
        spec["kernel"] = f"{file}:{name}"
    spec["reference"] = f"{file}:{spec['reference']}"
    return yaml.safe_dump(spec)
