"""Baselines as files: each is a JSON file with sorted keys in ``baselines/`` of the project, intended for git."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kcheck.errors import UserError
from kcheck.model.baseline import Baseline, Errors, OpBaseline

FOLDER = "baselines"
VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ANEW = "fix it, or save it again"


def path_of(root: Path, name: str) -> Path:
    """The file of a baseline.

    Raises:
        UserError: the name is not valid.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a valid baseline name: use at most 64 letters, digits, '.', '_' and '-'")
    return root / FOLDER / f"{name}.json"


def names(root: Path) -> list[str]:
    """The baselines of a project, sorted."""
    folder = root / FOLDER
    return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []


def check_writable(root: Path, name: str) -> None:
    """Check that a baseline can be saved, before the run that measures it.

    Raises:
        UserError: the folder cannot be written, or the name is not valid.
    """
    path = path_of(root, name)
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        os.unlink(temporary)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def save(root: Path, baseline: Baseline) -> Path:
    """Write a baseline; atomically replaces one with the same name.

    Raises:
        UserError: it cannot be written.
    """
    path = path_of(root, baseline.name)
    text = json.dumps(_as_json(baseline), indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def remove(root: Path, name: str) -> None:
    """Delete a baseline.

    Raises:
        UserError: no baseline has this name.
    """
    path = path_of(root, name)
    if not path.is_file():
        raise _missing(root, name)
    path.unlink()


def load(root: Path, name: str) -> Baseline:
    """Read a baseline.

    Raises:
        UserError: no baseline has this name, or the file is not valid.
    """
    path = path_of(root, name)
    if not path.is_file():
        raise _missing(root, name)
    try:
        top = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}; {_ANEW}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    return _BaselineReader(path).baseline(name, top)


def _missing(root: Path, name: str) -> UserError:
    known = names(root)
    there = (
        f"available: {', '.join(known)}"
        if known
        else f"no baselines exist yet; save one: kcheck baseline save {name}"
    )
    return UserError(f"no baseline {name!r} in {root / FOLDER}; {there}")


def _as_json(baseline: Baseline) -> dict[str, Any]:
    ops: dict[str, Any] = {}
    for op, found in baseline.ops.items():
        kernels: dict[str, Any] = {}
        for (kernel, target, types), numbers in found.kernels.items():
            row = {name: _number(value) for name, value in numbers.items()}
            kernels.setdefault(kernel, {}).setdefault(target, {})[types] = row
        ops[op] = {
            "spec": found.spec,
            "device": found.device,
            "cases": {
                "count": found.count,
                "seed": str(found.seed),
                "passed": found.passed,
                "failed": found.failed,
            },
            "errors": {
                dtype: {k: _number(v) if isinstance(v, float) else v for k, v in asdict(errors).items()}
                for dtype, errors in found.errors.items()
            },
            "kernels": kernels,
        }
    return {"baseline": VERSION, "versions": dict(baseline.versions), "paths": list(baseline.paths), "ops": ops}


def _number(value: float) -> float | int:
    """A whole number as int, so that the file shows no ``.0``."""
    return int(value) if value == int(value) else value


class _BaselineReader:
    """Reads a baseline file. Anything that is not valid raises a UserError that says where it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def wrong(self, where: str, what: str) -> UserError:
        return UserError(f"{self.path}: {where} {what}; {_ANEW}")

    def mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(where, "must be a mapping")
        return value

    def part(self, value: Mapping[str, Any], key: str, where: str) -> Any:
        if key not in value:
            raise self.wrong(where, f"lacks {key!r}")
        return value[key]

    def number(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(where, "must be a number")
        return value

    def text(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise self.wrong(where, "must be text")
        return value

    def baseline(self, name: str, top: Any) -> Baseline:
        parts = self.mapping(top, "the file")
        version = self.part(parts, "baseline", "the file")
        if version != VERSION:
            raise self.wrong("'baseline'", f"is {version!r}, but this kcheck supports {VERSION}")
        versions = self.mapping(self.part(parts, "versions", "the file"), "'versions'")
        paths = self.part(parts, "paths", "the file")
        if not isinstance(paths, list):
            raise self.wrong("'paths'", "must be a list")
        ops = self.mapping(self.part(parts, "ops", "the file"), "'ops'")
        return Baseline(
            name,
            {key: self.text(value, f"version of {key}") for key, value in versions.items()},
            tuple(self.text(path, "a path") for path in paths),
            {op: self.op(op, value) for op, value in ops.items()},
        )

    def op(self, op: str, value: Any) -> OpBaseline:
        where = f"op {op!r}"
        parts = self.mapping(value, where)
        cases = self.mapping(self.part(parts, "cases", where), f"cases of {where}")
        count, passed, failed = (
            int(self.number(self.part(cases, key, where), f"{key} of {where}"))
            for key in ("count", "passed", "failed")
        )
        seed = self.text(self.part(cases, "seed", where), f"seed of {where}")
        if not seed.isdecimal():
            raise self.wrong(f"seed of {where}", "must be a whole number, as text")
        errors = self.mapping(self.part(parts, "errors", where), f"errors of {where}")
        kernels = self.mapping(self.part(parts, "kernels", where), f"kernels of {where}")
        return OpBaseline(
            self.text(self.part(parts, "spec", where), f"spec of {where}"),
            self.text(self.part(parts, "device", where), f"device of {where}"),
            count,
            int(seed),
            passed,
            failed,
            {dtype: self.errors(row, f"errors in {dtype} of {where}") for dtype, row in errors.items()},
            {
                (kernel, target, types): self.numbers(row, f"kernel {kernel!r} of {where}")
                for kernel, targets in kernels.items()
                for target, rows in self.mapping(targets, f"kernel {kernel!r} of {where}").items()
                for types, row in self.mapping(rows, f"kernel {kernel!r} of {where}").items()
            },
        )

    def errors(self, value: Any, where: str) -> Errors:
        parts = self.mapping(value, where)
        unit = self.part(parts, "unit", where)
        if unit not in ("floor", "allowed"):
            raise self.wrong(where, "must be in units of 'floor' or 'allowed'")
        cases, median, p95, largest, ulp = (
            self.number(self.part(parts, key, where), where)
            for key in ("cases", "median", "p95", "largest", "ulp")
        )
        return Errors(unit, int(cases), median, p95, largest, ulp)

    def numbers(self, value: Any, where: str) -> Mapping[str, float]:
        return {
            key: self.number(number, f"{key} of {where}") for key, number in self.mapping(value, where).items()
        }
