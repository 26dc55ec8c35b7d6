"""Baselines that a client writes to files, and the measurements of the assembler for a PTX text."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from kcheck.compat.gpuemu.history import HISTORY
from kcheck.compat.gpuemu.ops import ClientError
from kcheck.runner.linting import lint_ptx
from kcheck.specfile.paths import nearest_root

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def write_baseline(tag: str) -> Path:
    """Write the largest errors and the counts of every op, as ``Client.set_baseline`` describes."""
    if not _TAG.fullmatch(tag):
        raise ClientError(f"{tag!r} is not a valid tag; use letters, digits, '.', '_' and '-'")
    ops: dict[str, dict[str, Any]] = {}
    for record in HISTORY.records.values():
        result = record.result
        held = ops.setdefault(result.op_name, {"passed": 0, "failed": 0, "max_diff": 0.0, "max_rel_diff": 0.0})
        held["passed" if result.passed else "failed"] += 1
        for name in ("max_diff", "max_rel_diff"):
            held[name] = max(held[name], getattr(result, name))
    if not ops:
        raise ClientError("there are no results to save as a baseline; validate or fuzz an op first")
    file = (nearest_root(Path()) or Path()) / "baselines" / "gpuemu" / f"{tag}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tag": tag, "ops": ops}, indent=1, sort_keys=True) + "\n")
    return file


def lint_text(text: str, entry: str) -> list[dict[str, Any]]:
    """The measurements of each kernel in a PTX text, in the form of gpuemu's linter."""
    linted = lint_ptx(text, "kernel.ptx", entry, (), None)
    found = []
    for metric in linted.metrics:
        measured = dataclasses.asdict(metric.resources) if metric.resources is not None else {}
        if metric.resources is not None:
            measured |= {"register_count": metric.resources.registers, "spill_count": metric.resources.spills}
        violations = [str(metric.problem)] if metric.problem else []
        found.append(
            {
                "kernel_name": metric.kernel,
                "passed": not violations,
                "metrics": measured,
                "violations": violations,
            }
        )
    return found
