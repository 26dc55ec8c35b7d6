"""JSON definitions of an op: ``axes``, ``inputs``, ``outputs`` and a ``reference`` in Python, as FlashInfer-Bench
and SOL-ExecBench have them. Candidates are JSON solutions, or Python files that define ``run``.

``const`` axes are numbers, ``var`` axes are dims; workloads, if there are any beside the definition, say how large
these are. Source: FlashInfer-Bench's documentation of its trace format.
"""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.grading.candidate import Order
from kcheck.grading.models import torch_for
from kcheck.grading.ownwork import OperatorWork
from kcheck.grading.plain import GradingProblem, bare
from kcheck.grading.tensors import Callee, Form
from kcheck.grading.tensorspec import candidate_runs, op_name, root_of, with_signature
from kcheck.model import Case, OpSpec
from kcheck.specfile.build import given_spec

_MOST = 512
"""The largest size of an axis that no workload names."""
_ELEMENTS, _GIVEN = 1 << 16, 1 << 21
"""The most elements of an array in an ordinary case, and in one with the sizes of a workload."""
_UNPACKED: list[tempfile.TemporaryDirectory[str]] = []
"""The sources of solutions, which are deleted when the process ends."""
_WORKLOADS = 20
"""How many workloads run as cases."""


@dataclass(frozen=True)
class OpDefinition:
    """A definition that was read.

    Attributes:
        var, const: the axes.
        numbers: the inputs without a shape, with the values of workloads.
        workloads: sizes of ``var`` axes.
    """

    path: Path
    document: Mapping[str, Any]
    var: tuple[str, ...]
    const: Mapping[str, int]
    numbers: Mapping[str, tuple[Any, ...]]
    workloads: tuple[Mapping[str, int], ...]

    @classmethod
    def read(cls, path: Path) -> OpDefinition:
        """Read a file and the workloads beside it.

        Raises:
            UserError: it is not a definition.
        """
        document = _json(path)
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
        return cls(path, document, tuple(n for n in axes if n not in const), const, numbers, tuple(sizes))

    @property
    def arrays(self) -> dict[str, Any]:
        """The inputs that are arrays."""
        return {name: each for name, each in self.document["inputs"].items() if each.get("shape") is not None}

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


def _json(path: Path) -> dict[str, Any]:
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


def _spec(found: OpDefinition) -> OpSpec:
    torch = torch_for(found.path)
    most = {name: _largest(found, name) for name in found.var}
    examples = [sizes for sizes in found.workloads if _elements(found, sizes) <= _GIVEN][:_WORKLOADS]
    inputs = {name: _input(found, name, each) for name, each in found.arrays.items()}
    outputs = {
        name: {"shape": found.shape(each), "dtype": each["dtype"], "layouts": ["contiguous"]}
        for name, each in found.document["outputs"].items()
    }
    keys = {
        "op": op_name(found.document["name"]),
        "dims": {name: range(1, size + 1) for name, size in most.items()},
        "constraints": [*map(str, found.document.get("constraints") or ()), *_memory(found, examples)],
        "params": {name: _param(found, name, values) for name, values in found.numbers.items()},
        "inputs": inputs,
        "outputs": outputs,
        "reference": _reference(found, torch),
        "launcher": candidate_runs,
        "examples": [{"dims": dict(sizes)} for sizes in examples],
    }
    return given_spec(found.path, root_of(found.path), {key: value for key, value in keys.items() if value}, 1)


def _largest(found: OpDefinition, name: str) -> int:
    """The largest size of an axis: the largest of a workload that runs, otherwise as many as arrays may have."""
    runs = [sizes for sizes in found.workloads if _elements(found, sizes) <= _GIVEN]
    arrays = [*found.arrays.values(), *found.document["outputs"].values()]
    own = [math.prod(found.const.get(a, 1) for a in each["shape"]) for each in arrays if name in each["shape"]]
    room = min([_MOST, *(max(1, _ELEMENTS // size) for size in own)])
    return max([room, *(int(sizes[name]) for sizes in runs if name in sizes)])


def _elements(found: OpDefinition, sizes: Mapping[str, int]) -> int:
    """The elements of the largest array."""
    known = {**found.const, **sizes}
    if any(name not in sizes for name in found.var):
        return _GIVEN + 1
    arrays = [*found.arrays.values(), *found.document["outputs"].values()]
    return max((math.prod(known.get(axis, 1) for axis in each["shape"] or ()) for each in arrays), default=0)


def _memory(found: OpDefinition, examples: Sequence[Mapping[str, int]]) -> Iterator[str]:
    given = [" and ".join(f"{name} == {size}" for name, size in sizes.items()) for sizes in examples]
    arrays = [*found.arrays.values(), *found.document["outputs"].values()]
    for shape in dict.fromkeys(tuple(found.shape(each)) for each in arrays):
        if any(isinstance(axis, str) for axis in shape):
            least = math.prod(axis for axis in shape if isinstance(axis, int))
            product = " * ".join(f"({axis})" for axis in shape)
            yield " or ".join((f"{product} <= {max(_ELEMENTS, least)}", *given))


def _input(found: OpDefinition, name: str, array: Mapping[str, Any]) -> dict[str, Any]:
    dtype = str(array["dtype"])
    made: dict[str, Any] = {"shape": found.shape(array), "dtype": dtype, "layouts": ["contiguous"]}
    if dtype.startswith(("int", "uint")):
        what = f"{found.path}: the input {name} is {dtype}, and a definition does not say which integers are valid"
        raise UserError(f"{what}; write a spec with its distribution")
    return made


def _param(found: OpDefinition, name: str, values: Sequence[Any]) -> dict[str, Any]:
    return {"dtype": found.document["inputs"][name]["dtype"], "values": list(values)}


def _reference(found: OpDefinition, torch: Any) -> Callable[..., Any]:
    names = list(found.document["inputs"])
    run = found.run

    def reference(**given: Any) -> Any:
        with torch.no_grad():
            result = run(*(given[name] for name in names))
        return tuple(result) if isinstance(result, list) else result

    return with_signature(reference, list(found.arrays), tuple(found.numbers), torch.Tensor)


@functools.cache
def _known(path: Path) -> tuple[OpDefinition, OpSpec]:
    found = OpDefinition.read(path)
    return found, _spec(found)


@dataclass(frozen=True)
class DefinitionProblem(GradingProblem):
    """A JSON definition."""

    path: Path
    name: str
    kind: str = "torch"
    asks_for_kernels: bool = True

    def spec(self) -> OpSpec:
        """As :meth:`kcheck.grading.plain.GradingProblem.spec`."""
        return _known(self.path)[1]

    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """As :meth:`kcheck.grading.plain.GradingProblem.order`. The sources of a solution go to a new folder."""
        found, spec = _known(self.path)
        file, name, form = (candidate, "run", "returns")
        if candidate.suffix == ".json":
            file, name, form = _unpacked(candidate)
        callee = Callee(str(file), form, name, tuple(found.document["inputs"]))  # type: ignore[arg-type]
        reads = str(file) if file == candidate else str(file.parent)
        return spec, Order(bare(spec), callee=callee), (reads,)

    def extra(self, case: Case) -> Any:
        """The numbers among the inputs."""
        found, _ = _known(self.path)
        return {name: case.params[name] for name in found.numbers}

    def work(self, case: Case) -> int:
        """As :meth:`kcheck.grading.plain.GradingProblem.work`."""
        if not self.asks_for_kernels:
            return 0
        found, _ = _known(self.path)
        torch = torch_for(self.path)
        sizes = {**found.const, **case.dims}
        tensors = {
            name: torch.empty(
                [sizes.get(axis, axis) for axis in each["shape"]], dtype=getattr(torch, each["dtype"])
            )
            for name, each in found.arrays.items()
        }
        given = {**{name: case.params[name] for name in found.numbers}, **tensors}
        with torch.no_grad(), OperatorWork(torch) as work:
            found.run(*(given[name] for name in found.document["inputs"]))
        return work.total


def _unpacked(path: Path) -> tuple[Path, str, Form]:
    """The main file of a solution, its function, and how it is called.

    Raises:
        UserError: it is not a solution.
    """
    document = _json(path)
    spec, sources = document.get("spec"), document.get("sources")
    if not isinstance(spec, dict) or not isinstance(sources, list):
        raise UserError(f"{path} is not a solution: it has no spec or no sources")
    file, _, name = str(spec.get("entry_point", "main.py::run")).partition("::")
    made = tempfile.TemporaryDirectory(prefix="kcheck-solution-")
    _UNPACKED.append(made)
    folder = Path(made.name)
    for each in sources:
        target = folder / os.path.normpath(str(each["path"])).lstrip("/.")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(each["content"]), encoding="utf-8")
    form: Form = "writes" if spec.get("destination_passing_style") is True else "returns"
    return folder / file, name or "run", form


def definition_problem(path: Path) -> GradingProblem | None:
    """The problem in a JSON file; None if it is another file."""
    if path.suffix != ".json" or not path.is_file():
        return None
    return DefinitionProblem(Path(os.path.abspath(path)), str(OpDefinition.read(path).document["name"]))
