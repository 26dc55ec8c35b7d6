"""Judge calls of monitored functions that have a spec by the noise floor, and save them as ``.kcase`` files."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from kcheck import model
from kcheck.api import Case, Verdict
from kcheck.api.spec import SpecLike, model_of
from kcheck.errors import UserError
from kcheck.frameworks import NotAnArray, as_numpy
from kcheck.generator import HELD, CaseArrays, element_type, materialize, shape_of, sizes_of_call, snapshot
from kcheck.model import Distribution, Input, OpSpec, Output
from kcheck.monitor.arrays import Array, is_array
from kcheck.oracle import Expected
from kcheck.store import bits
from kcheck.store.kcase import Kcase, write_kcase
from kcheck.version import __version__


class NotACase(UserError):
    """A call is not a case of the spec of its function."""


class SpecJudge:
    """Judges calls of a function as cases of a spec.

    Args:
        spec: a spec, or the path of a spec file.
        reference: a NumPy function that replaces the reference of the spec; None: the spec's.
        function: the monitored function; its parameters have the names of the spec's inputs, params and dims.

    Raises:
        SpecError: the spec is invalid.
        UserError: the function lacks a parameter.
    """

    def __init__(self, spec: SpecLike, reference: Callable[..., Any] | None, function: Callable[..., Any]) -> None:
        found = model_of(spec)
        if reference is not None:
            if found.reference is None:
                raise UserError(f"{found.span}: the spec has no reference to replace; set reference=None")
            found = replace(found, reference=replace(found.reference, given=reference))
        self.spec: OpSpec = found
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        missing = [name for name in (*found.inputs, *found.params) if name not in names]
        if missing:
            own = ", ".join(names)
            raise UserError(
                f"{found.span}: the monitored function has the parameters {own}, but not {missing[0]!r}; "
                "name them as the spec does"
            )

    def arrays(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CaseArrays:
        """A call as a case of the spec.

        Raises:
            NotACase: an argument is not an array, or has a dtype or a shape that the spec does not allow.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        spec = self.spec
        try:
            inputs = {name: np.ascontiguousarray(as_numpy(given[name], name)) for name in spec.inputs}
        except NotAnArray as error:
            raise NotACase(str(error)) from None
        inputs = {name: array.reshape(np.shape(given[name])) for name, array in inputs.items()}
        dtypes = {
            spec.inputs[name].dtype: array.dtype.name
            for name, array in inputs.items()
            if spec.inputs[name].dtype in spec.dtypes
        }
        dtypes = {name: dtypes.get(name, variable.choices[0]) for name, variable in spec.dtypes.items()}
        for name, variable in spec.dtypes.items():
            if dtypes[name] not in variable.choices:
                allowed = ", ".join(variable.choices)
                raise NotACase(f"the dtype {name} of the inputs is {dtypes[name]}, but the spec allows {allowed}")
        arrays: dict[str, Input | Output] = {**spec.inputs, **spec.outputs}
        case = model.Case(
            spec.path,
            spec.op,
            "monitored",
            _seed(inputs),
            self._dims(inputs, given),
            dtypes,
            {
                name: "contiguous" if "contiguous" in array.layouts else array.layouts[0]
                for name, array in arrays.items()
            },
            {name: Distribution(HELD) for name in inputs},
            {name: _number(given[name]) for name in spec.params},
        )
        for name, array in inputs.items():
            shape, dtype = shape_of(spec.inputs[name], case.dims), element_type(spec.inputs[name], dtypes)
            if array.shape != shape or array.dtype != dtype.numpy:
                is_, wanted = f"{array.dtype} {list(array.shape)}", f"{dtype} {list(shape)}"
                raise NotACase(f"{name} is {is_}, but the spec declares {wanted}")
        return materialize(spec, case, inputs)

    def _dims(self, inputs: Mapping[str, Array], given: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of a call, from the shapes of its inputs and from arguments with the names of dims."""
        known = {name: int(given[name]) for name in self.spec.dims if isinstance(given.get(name), int)}
        try:
            return sizes_of_call(self.spec, {name: array.shape for name, array in inputs.items()}, known)
        except UserError as error:
            raise NotACase(str(error)) from None

    def judge(self, arrays: CaseArrays, result: Any, after: Mapping[str, Any]) -> Verdict:
        """The verdict on a result.

        Args:
            result: the result of the function; None: it wrote to arguments with the names of the outputs.
            after: the arguments by name, after the call.
        """
        spec = self.spec
        if result is None:
            result = {
                name: after[output.alias if name not in after and output.alias else name]
                for name, output in spec.outputs.items()
                if name in after or output.alias in after
            }
        return Case(spec, arrays.case, arrays).judge(result)

    def truth(self, arrays: CaseArrays) -> Mapping[str, Array]:
        """The results of the reference for a case, by output."""
        return Expected(self.spec, arrays).truth().expected

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the names of the parameters."""
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def save(self, arrays: CaseArrays, verdict: Verdict, result: Any) -> Path:
        """Write a call to ``.kcheck/monitor`` of the project, for ``kcheck reproduce`` and ``kcheck minimize``.

        Returns:
            The file, named after the op and a digest of the inputs.

        Raises:
            OSError: the folder cannot be written.
        """
        folder = Path(self.spec.root) / ".kcheck" / "monitor"
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{self.spec.op}-{arrays.case.seed}.kcase"
        names = list(self.spec.outputs)
        single = {names[0]: result} if len(names) == 1 and is_array(result) else {}
        outputs = {name: as_numpy(value) for name, value in single.items()}
        content = io.BytesIO()
        write_kcase(content, Kcase(snapshot(arrays), verdict._model, bits(outputs)), __version__)
        beside = target.with_suffix(f".{os.getpid()}")
        beside.write_bytes(content.getvalue())
        beside.replace(target)
        here = Path.cwd()
        return target.relative_to(here) if target.is_relative_to(here) else target


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _seed(inputs: Mapping[str, Array]) -> int:
    """A seed derived from the inputs, so that the same mismatch is saved only once."""
    digest = blake2b(digest_size=8)
    for name, array in inputs.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return int.from_bytes(digest.digest(), "little")
