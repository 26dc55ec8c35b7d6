"""What candidates are judged against: a spec, or a file of a benchmark, as a spec of kcheck."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import UserError
from kcheck.grading.candidate import Order
from kcheck.grading.definitions import DefinitionProblem, definition_problem
from kcheck.grading.models import ModelProblem, model_problem
from kcheck.grading.plain import GradingProblem, bare
from kcheck.grading.tasks import TaskProblem, task_problem
from kcheck.model import OpSpec, Span
from kcheck.specfile.build import changed_spec, load_spec
from kcheck.specfile.paths import shown


@dataclass(frozen=True)
class SpecProblem(GradingProblem):
    """A spec file. A candidate is a file that defines what the spec names: a kernel, launcher or function."""

    path: Path
    name: str
    kind: str
    asks_for_kernels: bool = True

    def spec(self) -> OpSpec:
        """As :meth:`GradingProblem.spec`."""
        return load_spec(self.path)

    def order(self, candidate: Path) -> tuple[OpSpec, Order, tuple[str, ...]]:
        """As :meth:`GradingProblem.order`."""
        own = load_spec(self.path)
        key, runs = _replaced(own, candidate)
        arguments = f"<{runs.arguments}>" if getattr(runs, "arguments", "") else ""
        value = f"{candidate.as_posix()}:{runs.name}{arguments}"
        spec = changed_spec(self.path, "", {key: value}, Span(shown(candidate)), [candidate])
        folders = [os.path.join(spec.root, each) for each in getattr(spec.compile, "include", ())]
        targets = spec.artifact.targets[:1] if spec.artifact is not None else ()
        for other in (spec.kernel, spec.launcher):  # the one that is not the candidate's
            if other is not None:
                folders.append(os.path.join(spec.root, other.path))
        return spec, Order(bare(spec), targets), (str(candidate), *folders)


def _replaced(spec: OpSpec, candidate: Path) -> tuple[str, Any]:
    """What of the spec a candidate defines. If a launcher in Python launches a kernel of another language, the
    file's name says which of them it is."""
    kernel, launcher = spec.kernel, spec.launcher
    both = (kernel, launcher) if kernel is not None and launcher is not None else None
    if both is not None and candidate.suffix == Path(both[0].path).suffix != Path(both[1].path).suffix:
        return "kernel", kernel
    if spec.function is not None:
        return "function", spec.function
    return ("launcher", spec.launcher) if spec.launcher is not None else ("kernel", spec.kernel)


def read_problem(path: Path, own_kernels: bool = True) -> GradingProblem:
    """The problem in a file or folder.

    Args:
        own_kernels: PyTorch's own operators may not do the work of a model.

    Raises:
        UserError: it is none of the forms.
        SpecError: it is a spec with errors.
    """
    for form in FORMS:
        found = form(path)
        if isinstance(found, ModelProblem | TaskProblem | DefinitionProblem):
            return replace(found, asks_for_kernels=own_kernels)
        if found is not None:
            return found
    what = f"{path} is not a problem" if path.exists() else f"there is no file {path}"
    raise UserError(f"{what}; give a spec (softmax.yaml), or `kcheck grade --help` for the other forms")


def _spec(path: Path) -> GradingProblem | None:
    file = str(path).partition("::")[0]
    if not os.path.isfile(file) or not (path.suffix in (".yaml", ".yml") or "::" in str(path)):
        return None
    spec = load_spec(path)
    kind = spec.kernel.kind if spec.kernel is not None else "triton" if _has_triton() else "numba"
    return SpecProblem(Path(os.path.abspath(path)), spec.op, kind)


def _has_triton() -> bool:
    """Whether a launcher may use Triton."""
    return importlib.util.find_spec("triton") is not None


FORMS: tuple[Callable[[Path], GradingProblem | None], ...] = (
    _spec,
    task_problem,
    definition_problem,
    model_problem,
)
