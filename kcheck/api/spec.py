"""Specs in Python: built from values, or read from a file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from kcheck.declaration import declaration_of
from kcheck.errors import UserError
from kcheck.model import OpSpec, Span
from kcheck.model.levels import overridden
from kcheck.specfile.build import changed_spec, given_spec
from kcheck.specfile.build import load_spec as read_spec
from kcheck.specfile.declared import argument_places, way_of
from kcheck.specfile.given import is_compiled, plain_function
from kcheck.specfile.paths import nearest_root, shown

_WAYS = ("kernel", "launch", "launcher", "function", "extends")
"""Keys that define how the op is run."""


class Spec:
    """An op spec. ``docs/spec.md`` describes the keys; the errors and messages are the same as for a YAML file.

    Values are those of YAML, and also a ``range`` for a dim (``range(1, 65)`` is ``1..64``), a dtype of any
    framework, and functions instead of their names: ``kernel``, ``launcher``, ``function``, ``reference``,
    ``values={"from": f}``. A spec without ``kernel``, ``launcher`` and ``function`` is a contract:
    :func:`kcheck.cases` uses it, and the caller runs the op.

    >>> import numpy as np
    >>> import kcheck
    >>> def reference(x):
    ...     return x / np.sum(x)
    >>> spec = kcheck.Spec(
    ...     "normalize", dims={"N": range(1, 65)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=reference
    ... )
    >>> spec
    Spec('normalize', N=1..64, x[N] -> y[N])

    Args:
        op: the name of the op.
        keys: the other keys of a spec, such as ``dims``, ``inputs``, ``outputs``, ``kernel``, ``launch``,
            ``reference`` and ``tolerance``.

    Raises:
        SpecError: with every error found; the place is the line of this call.
    """

    def __init__(self, op: str, **keys: Any) -> None:
        path, line = caller()
        root = nearest_root(path) or nearest_root(Path()) or path.parent
        runs = {} if any(key in keys for key in _WAYS) else {"launcher": caller_runs}
        self._model = given_spec(path, Path(os.path.abspath(root)), {"op": op, **runs, **keys}, line)
        self._file: Path | None = None

    @classmethod
    def _of(cls, model: OpSpec, file: Path | None) -> Spec:
        made = cls.__new__(cls)
        made._model, made._file = model, file
        return made

    @property
    def op(self) -> str:
        """The name of the op."""
        return self._model.op

    @property
    def path(self) -> str:
        """The file of the spec, relative to the project root; for a spec built in Python, the file of the call."""
        return self._model.path

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(self._model.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(self._model.outputs)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dims, in order."""
        return tuple(self._model.dims)

    @property
    def params(self) -> tuple[str, ...]:
        """The names of the params, in order."""
        return tuple(self._model.params)

    def __repr__(self) -> str:
        model = self._model
        dims = ", ".join(f"{name}={_domain(dim.domain)}" for name, dim in model.dims.items())
        inputs = ", ".join(_shape(name, array.shape) for name, array in model.inputs.items())
        outputs = ", ".join(_shape(name, array.shape) for name, array in model.outputs.items())
        parts = [repr(self.op), dims, f"{inputs} -> {outputs}".strip()]
        return f"Spec({', '.join(part for part in parts if part)})"


SpecLike: TypeAlias = Spec | str | os.PathLike[str] | Callable[..., Any]
"""A spec, the path of a spec file (``specs/softmax.yaml``, ``kernels/softmax.py::softmax``), or a function that
``@kcheck.op`` decorates."""


def load_spec(path: str | os.PathLike[str], *, profile: str = "", **keys: Any) -> Spec:
    """Read and check a spec file. Its Python files are parsed, not imported.

    >>> import kcheck
    >>> kcheck.load_spec("specs/softmax.yaml").inputs
    ('x',)

    Args:
        path: the file, relative to the current folder; ``file.py::op`` for an op that ``@kcheck.op`` declares.
        profile: a profile of the project, such as ``nightly``; default: none.
        keys: top-level keys that replace those of the file, as Python values: ``kernel=my_kernel``.

    Raises:
        SpecError: with every error found, each with its file, line, column and fix.
        UserError: the project has no such profile.
    """
    file = Path(path)
    if not keys:
        return Spec._of(read_spec(file, profile), file)
    return Spec._of(changed_spec(file, profile, keys, Span(*_place())), file)


def model_of(spec: SpecLike, kernel: Any = None) -> OpSpec:
    """The model of the spec that is passed to a function of the API.

    Args:
        kernel: a kernel, or ``file.py:name``, instead of the spec's; None: the spec's.

    Raises:
        SpecError: the file is not a spec, or the kernel does not match it.
    """
    if isinstance(spec, Spec):
        if kernel is None:
            return spec._model
        if spec._file is None:
            raise UserError(f"the spec {spec.op!r} was built in Python; pass the kernel to kcheck.Spec instead")
        spec = spec._file
    if not isinstance(spec, str | os.PathLike):
        return _declared(spec, kernel)
    path = Path(spec)
    return read_spec(path) if kernel is None else changed_spec(path, "", {"kernel": kernel}, Span(*_place()))


def _declared(function: Callable[..., Any], kernel: Any) -> OpSpec:
    """The spec of a function that ``@kcheck.op`` decorates, from the values of the decorator's arguments."""
    found = declaration_of(function)
    if found is None:
        name = getattr(function, "__name__", repr(function))
        raise UserError(f"{name} is not a spec, and not decorated with @kcheck.op; pass a kcheck.Spec or a path")
    plain = plain_function(function)
    op = found.op or found.keys.get("op") or getattr(plain, "__name__", "")
    way = way_of(set(found.keys), is_compiled(function))
    path = Path(found.file)
    root = nearest_root(path) or nearest_root(Path()) or path.parent
    keys = {**found.keys, "op": op, way: function if kernel is None else kernel}
    places = argument_places(found.file, found.line)
    return given_spec(path, Path(os.path.abspath(root)), keys, found.line, places=places)


def runnable(spec: SpecLike, kernel: Any = None) -> OpSpec:
    """As :func:`model_of`, for a function that launches the op.

    Raises:
        UserError: the spec names no kernel.
    """
    model = model_of(spec, kernel)
    if model.launcher is not None and model.launcher.given is caller_runs:
        raise UserError(
            f"{model.span}: the spec {model.op!r} has no kernel; add kernel= and launch=, or run the op yourself "
            "on kcheck.cases(spec)"
        )
    return model


def with_levels(model: OpSpec, sanitize: Mapping[str, Any]) -> OpSpec:
    """A spec with different levels for its sanitizers."""
    return replace(model, sanitize=overridden(model.sanitize, sanitize))


def caller_runs() -> None:
    """The launcher of a spec without a kernel. Nothing calls it: the caller runs the op."""
    raise UserError("this spec has no kernel; run the op on kcheck.cases(spec)")


def caller() -> tuple[Path, int]:
    """The file and line of the nearest call from outside kcheck."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    frame = inspect.currentframe()
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(package + os.sep):
        frame = frame.f_back
    if frame is None:
        return Path("python"), 1
    return Path(frame.f_code.co_filename), frame.f_lineno


def _place() -> tuple[str, int]:
    path, line = caller()
    return shown(path), line


def _domain(domain: Any) -> str:
    if hasattr(domain, "values"):
        return "|".join(map(str, domain.values))
    return f"{domain.low}..{domain.high}" if hasattr(domain, "low") else str(domain)


def _shape(name: str, shape: tuple[Any, ...]) -> str:
    return f"{name}[{', '.join(map(str, shape))}]"
