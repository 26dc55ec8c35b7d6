"""JSON definitions of an op: ``axes``, ``inputs``, ``outputs`` and a ``reference`` in Python, as FlashInfer-Bench
and SOL-ExecBench have them. Candidates are JSON solutions, or Python files that define ``run``.

``const`` axes are numbers, ``var`` axes are dims; workloads, if there are any beside the definition, say how large
these are. Source: FlashInfer-Bench's documentation of its trace format.
"""

from __future__ import annotations

import functools
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.generator import materialize
from kcheck.grading import integers
from kcheck.grading.candidate import Order
from kcheck.grading.models import torch_for
from kcheck.grading.opdefinition import OpDefinition, read_object
from kcheck.grading.ownwork import OperatorWork
from kcheck.grading.plain import GradingProblem, bare
from kcheck.grading.tensors import Callee, Form
from kcheck.grading.tensorspec import as_tensor, candidate_runs, named_outputs, op_name, root_of, with_signature
from kcheck.model import Case, OpSpec
from kcheck.specfile.build import given_spec
from kcheck.symbolic import ExpressionError, evaluate, parse

_MOST = 512
"""The largest size of an axis that no workload names."""
_ELEMENTS, _GIVEN = 1 << 16, 1 << 21
"""The most elements of an array in an ordinary case, and in one with the sizes of a workload."""
_UNPACKED: list[tempfile.TemporaryDirectory[str]] = []
"""The sources of solutions, which are deleted when the process ends."""
_WORKLOADS = 20
"""How many workloads run as cases."""


def _spec(found: OpDefinition) -> OpSpec:
    torch = torch_for(found.path)
    most = {name: _largest(found, name) for name in found.var}
    examples = [sizes for sizes in found.workloads if _elements(found, sizes) <= _GIVEN][:_WORKLOADS]
    contents = {name: _contents(found, name) for name in found.whole}
    stored = {name: each for name, each in contents.items() if isinstance(each, StoredContents)}
    inputs = {name: _input(found, name, each, contents) for name, each in found.arrays.items()}
    outputs = {
        name: {"shape": found.shape(each), "dtype": each["dtype"], "layouts": ["contiguous"]}
        for name, each in found.document["outputs"].items()
    }
    keys = {
        "op": op_name(found.document["name"]),
        "dims": {name: range(1, size + 1) for name, size in most.items()},
        "constraints": [*found.conditions, *_at_stored(stored), *_memory(found, examples), *_offsets_fit(found)],
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


def _input(
    found: OpDefinition, name: str, array: Mapping[str, Any], contents: Mapping[str, Any]
) -> dict[str, Any]:
    made: dict[str, Any] = {"shape": found.shape(array), "dtype": array["dtype"], "layouts": ["contiguous"]}
    known = contents.get(name)
    if known is not None:
        made["values"] = known.values(found) if isinstance(known, StoredContents) else known
    return made


@dataclass(frozen=True, eq=False, slots=True)
class StoredContents:
    """An array of integers whose valid contents only files of workloads tell.

    Attributes:
        known: the sizes of workloads, and the array at these.
    """

    known: tuple[tuple[Mapping[str, int], Any], ...]

    def values(self, found: OpDefinition) -> Any:
        """The generator, as in ``values: {from: f}``."""

        def values(rng: Any, shape: tuple[int, ...], dtype: Any, **sizes: int) -> Any:
            return next(each for at, each in self.known if dict(at) == sizes).astype(dtype)

        return {"from": with_signature(values, ("rng", "shape", "dtype"), found.var)}


def _at_stored(stored: Mapping[str, StoredContents]) -> Iterator[str]:
    """Only the sizes of workloads that have the contents."""
    for each in stored.values():
        yield " or ".join(" and ".join(f"{name} == {size}" for name, size in at.items()) for at, _ in each.known)


def _contents(found: OpDefinition, name: str) -> Any:
    """The distribution of an array of integers.

    Raises:
        UserError: it cannot be decided which are valid.
    """
    total = found.totals.get(name)
    if total is not None:
        return {"offsets": total}
    count = _asked(found, name).expression()
    if count:
        return {"integers": [0, f"{count} - 1" if not count.isdecimal() else int(count) - 1]}
    given = [each["inputs"].get(name, {}) for each in found.loads if isinstance(each.get("inputs"), dict)]
    if given and all(each.get("type") == "random" for each in given):
        return {"integers": [-8, 7] if str(found.arrays[name]["dtype"]).startswith("int") else [0, 15]}
    stored = tuple(_stored(found, name))
    if stored:
        return StoredContents(stored)
    if str(found.arrays[name]["dtype"]) in ("int8", "uint8"):
        return {"integers": [-8, 7] if found.arrays[name]["dtype"] == "int8" else [0, 15]}
    raise UserError(
        f"{found.path}: which integers the input {name} may have cannot be decided: its reference accepts any, or "
        f"none that was tried; if they are offsets, add the constraint 'total == {name}[-1]' with the axis that "
        f'they index; otherwise give a workload {{"inputs": {{"{name}": {{"type": "safetensors", ...}}}}}}'
    )


def _stored(found: OpDefinition, name: str) -> Iterator[tuple[Mapping[str, int], Any]]:
    for load in found.loads:
        each = load.get("inputs", {}).get(name, {})
        if each.get("type") == "safetensors" and _elements(found, load["axes"]) <= _GIVEN:
            array = integers.stored(
                Path(str(each["path"])),
                str(each["tensor_key"]),
                [found.path.parent, *list(found.path.parents)[:4]],
            )
            if array is not None:
                yield {axis: int(load["axes"][axis]) for axis in found.var}, array


def _asked(found: OpDefinition, name: str) -> integers.IndexRange:
    """Which numbers the reference accepts in an array, asked at small sizes."""
    torch = torch_for(found.path)
    conditions = [parse(text) for text in found.conditions]

    def fits(sizes: Mapping[str, int]) -> bool:
        try:
            return all(evaluate(each, sizes) for each in conditions)
        except ExpressionError:
            return False

    def accepts(sizes: Mapping[str, int], number: int) -> bool:
        given: dict[str, Any] = {each: values[0] for each, values in found.numbers.items()}
        for each, array in found.arrays.items():
            shape = [sizes[axis] if isinstance(axis, str) else axis for axis in found.shape(array)]
            dtype = getattr(torch, str(array["dtype"]))
            made = torch.zeros(shape, dtype=dtype)
            if each in found.totals:
                made = torch.from_numpy(integers.even_offsets(shape[0], sizes[found.totals[each]])).to(dtype)
            elif each == name:
                made = torch.full(shape, number, dtype=torch.int64).to(dtype)
            given[each] = made
        try:
            with torch.no_grad():
                found.run(*(given[each] for each in found.document["inputs"]))
        except Exception:
            return False
        return True

    sizes = list(integers.distinct_sizes(found.var, fits))
    wide = 127 if found.arrays[name]["dtype"] in ("int8", "uint8") else 1 << 20
    return integers.IndexRange(accepts, sizes, wide)


def _offsets_fit(found: OpDefinition) -> Iterator[str]:
    """Offsets begin with 0 and end with their total."""
    for name in found.totals:
        axis = found.shape(found.arrays[name])[0]
        if isinstance(axis, str):
            yield f"{axis} >= 2"


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

    def itself(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """As :meth:`kcheck.grading.plain.GradingProblem.itself`."""
        found, spec = _known(self.path)
        torch = torch_for(self.path)
        given = _tensors(found, torch, case, inputs)
        with torch.no_grad():
            result = found.run(*(given[name] for name in found.document["inputs"]))
        return named_outputs(spec, tuple(result) if isinstance(result, list | tuple) else result)

    def work(self, case: Case) -> int:
        """As :meth:`kcheck.grading.plain.GradingProblem.work`."""
        if not self.asks_for_kernels:
            return 0
        found, _ = _known(self.path)
        torch = torch_for(self.path)
        arrays = materialize(self.spec(), case)
        given = _tensors(found, torch, case, {name: arrays.allocation(name).view() for name in found.arrays})
        with torch.no_grad(), OperatorWork(torch) as work:
            found.run(*(given[name] for name in found.document["inputs"]))
        return work.total


def _tensors(found: OpDefinition, torch: Any, case: Case, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the reference, by name."""
    numbers = {name: case.params[name] for name in found.numbers}
    return {**numbers, **{name: as_tensor(torch, array) for name, array in arrays.items()}}


def _unpacked(path: Path) -> tuple[Path, str, Form]:
    """The main file of a solution, its function, and how it is called.

    Raises:
        UserError: it is not a solution.
    """
    document = read_object(path)
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
