"""A JSON definition and the workloads beside it, as they are read."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.grading import integers


@dataclass(frozen=True)
class OpDefinition:
    """A definition that was read.

    Attributes:
        var, const: the axes.
        numbers: the inputs without a shape, with the values of workloads.
        workloads: sizes of ``var`` axes.
        loads: the workloads as they are.
    """

    path: Path
    document: Mapping[str, Any]
    var: tuple[str, ...]
    const: Mapping[str, int]
    numbers: Mapping[str, tuple[Any, ...]]
    workloads: tuple[Mapping[str, int], ...]
    loads: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, path: Path) -> OpDefinition:
        """Read a file and the workloads beside it.

        Raises:
            UserError: it is not a definition.
        """
        document = read_object(path)
        missing = [key for key in ("name", "axes", "inputs", "outputs", "reference") if key not in document]
        if missing:
            raise UserError(f"{path} has no {' and no '.join(missing)}, which a definition has")
        axes = document["axes"]
        const = {name: int(axis["value"]) for name, axis in axes.items() if axis.get("type") == "const"}
        found = list(_workloads(path, document["name"]))
        sizes = [dict(each["axes"]) for each in found if isinstance(each.get("axes"), dict)]
        numbers: dict[str, tuple[Any, ...]] = {}
        for name, each in document["inputs"].items():
            if each.get("shape") is None:
                given = [load["inputs"][name].get("value") for load in found if name in load.get("inputs", {})]
                numbers[name] = tuple(dict.fromkeys(value for value in given if value is not None)) or (1,)
        return cls(
            path, document, tuple(n for n in axes if n not in const), const, numbers, tuple(sizes), tuple(found)
        )

    @property
    def arrays(self) -> dict[str, Any]:
        """The inputs that are arrays."""
        return {name: each for name, each in self.document["inputs"].items() if each.get("shape") is not None}

    @property
    def whole(self) -> list[str]:
        """The inputs that are arrays of integers."""
        return [name for name, each in self.arrays.items() if str(each["dtype"]).startswith(("int", "uint"))]

    @functools.cached_property
    def totals(self) -> dict[str, str]:
        """The inputs that are offsets, with the axis that is their last number."""
        return integers.totals(self._said(), self.whole)

    @functools.cached_property
    def conditions(self) -> list[str]:
        """The constraints on ``var`` axes, with numbers instead of ``const`` axes."""
        named = {re.compile(rf"\b{re.escape(name)}\b"): str(value) for name, value in self.const.items()}
        found = []
        for text in integers.of_sizes(self._said(), list(self.document["inputs"])):
            for pattern, value in named.items():
                text = pattern.sub(value, text)
            found.append(text)
        return found

    def _said(self) -> list[str]:
        return [str(text) for text in self.document.get("constraints") or ()]

    def shape(self, array: Mapping[str, Any]) -> list[int | str]:
        """The axes of an array as in a spec."""
        return [self.const.get(axis, axis) if isinstance(axis, str) else int(axis) for axis in array["shape"]]

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        """The reference.

        Raises:
            UserError: it does not define ``run``.
        """
        scope: dict[str, Any] = {"__name__": "_kcheck_definition"}
        try:
            exec(compile(self.document["reference"], str(self.path), "exec"), scope)  # the user's own file
        except Exception as error:
            raise UserError(f"{self.path}: its reference does not run: {type(error).__name__}: {error}") from error
        run = scope.get("run")
        if not callable(run):
            raise UserError(f"{self.path}: its reference does not define run")
        found: Callable[..., Any] = run
        return found


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UserError: there is no such object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise UserError(f"{path} is not a definition, which is a JSON object")
    return document


def _workloads(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The workloads of a definition: ``*.jsonl`` in ``workloads/`` beside ``definitions/``, or in its folder."""
    folders = [path.parent, *(parent / "workloads" for parent in path.parents[:4])]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.rglob(f"{name}.jsonl"))]
    for file in dict.fromkeys(files):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.strip():
                row = json.loads(line)
                if row.get("definition", name) == name:
                    yield row.get("workload", row)
