"""The fp64 reference of a case: load it, call it on separate copies, check what it returns.

A reference that cannot be used is never the kernel's fault: every failure is a :class:`ReferenceFailed` with a
finding that names the line of the user's file.
"""

from __future__ import annotations

import inspect
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alarm import limited
from kcheck.dataclass import dataclass
from kcheck.errors import KernelError
from kcheck.frameworks import FrameworkMissing, NotAnArray, as_numpy, framework_of, passed_array, wants_tensors
from kcheck.model import DType, Finding, Framework, OpSpec, Span, TritonOptions
from kcheck.model.indexing import first_index
from kcheck.model.limits import FIRST_CALL
from kcheck.nearest import did_you_mean
from kcheck.specfile.load import load_function

if TYPE_CHECKING:
    from kcheck.generator import CaseArrays

Array: TypeAlias = npt.NDArray[Any]
Wrap: TypeAlias = Callable[[Array], Array]


class ReferenceFailed(Exception):
    """The reference raised, or returned what cannot be compared. Becomes ``Status.ERROR``."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def upcast(array: Array, dtype: DType) -> Array:
    """A C-contiguous copy: floats as float64, complex as complex128 (both exact), anything else unchanged."""
    if dtype.is_inexact:
        wide = np.complex128 if dtype.kind == "complex" else np.float64
        with np.errstate(invalid="ignore"):  # a signaling NaN
            return np.ascontiguousarray(array).astype(wide).reshape(array.shape)
    return np.array(array, order="C", copy=True)


def scalar(value: object) -> bool | int | float | complex:
    """A param or dim as the Python scalar of the same value."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, complex | np.complexfloating):
        return complex(value)
    return float(value)  # type: ignore[arg-type]  # what is left is real: float16 to float64, ml_dtypes' own


@dataclass(frozen=True)
class Known:
    """What a case gives, apart from its reference.

    Attributes:
        values: the inputs, params and dims by name, upcast.
        shapes, dtypes: those of the inputs and outputs.
    """

    values: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, DType]

    @classmethod
    def of(cls, spec: OpSpec, arrays: CaseArrays) -> Known:
        """The values, shapes and dtypes of a case."""
        values: dict[str, Any] = {name: scalar(value) for name, value in arrays.case.dims.items()}
        values |= {name: scalar(value) for name, value in arrays.params.items()}
        if isinstance(spec.compile, TritonOptions):
            values |= spec.compile.words(arrays.params)
        allocations = {name: arrays.allocation(name) for name in (*spec.inputs, *spec.outputs)}
        for name in spec.inputs:
            values[name] = upcast(allocations[name].view(), allocations[name].dtype)
        return Known(
            values,
            {name: tuple(allocation.shape) for name, allocation in allocations.items()},
            {name: allocation.dtype for name, allocation in allocations.items()},
        )


class Pace:
    """How long the calls of a reference in one case may take.

    Args:
        limit: seconds for the first call; None for no limit.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._took: float | None = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the first call. Later ones may be much slower, because they get arrays that round."""
        begun = time.monotonic()
        yield
        if self._took is None and self.limit is not None:
            self._took = time.monotonic() - begun
            self.limit = max(self.limit, _ROUNDING_TAKES * self._took)


_ROUNDING_TAKES = 100
"""How many times as long a later call may take."""


@dataclass(frozen=True)
class Reference(Known):
    """A loaded reference with its arguments for a case: it gets copies of the values.

    Attributes:
        float_inputs: the floating-point inputs (real or complex), in the order of the spec.
        framework: whose arrays the function gets: that of its annotations, else NumPy.
        pace: how long its calls may take.
    """

    spec: OpSpec
    function: Callable[..., object]
    arguments: tuple[str, ...]
    positional: int
    float_inputs: tuple[str, ...]
    framework: Framework = Framework("numpy")
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def load(cls, spec: OpSpec, arrays: CaseArrays, limit: float | None = None) -> Reference:
        """Load the function and match its signature with the names of the spec.

        Args:
            limit: seconds for a call; None for no limit.

        Raises:
            ReferenceFailed: the spec has none, the file cannot be imported, a parameter without a default is not
                a name of the spec, or the framework of its annotations is not installed.
        """
        if not spec.judged:
            what = "the spec has no reference: values are not compared"
            raise ReferenceFailed(Finding("reference", what, place=spec.reference.span))
        try:
            function = load_function(spec.root, spec.reference)
            framework = framework_of(function, Framework())
        except KernelError as error:
            fault = error.fault
            raise ReferenceFailed(Finding("reference", fault.what, fix=fault.fix, place=fault.span)) from error
        except FrameworkMissing as error:
            raise ReferenceFailed(Finding("reference", str(error), place=spec.reference.span)) from error
        known = Known.of(spec, arrays)
        arguments, positional = _match(spec, function, tuple(known.values))
        floats = tuple(name for name in spec.inputs if known.dtypes[name].is_inexact)
        shown = known.values, known.shapes, known.dtypes
        if limit is not None and framework.name != "numpy":
            limit = max(limit, FIRST_CALL)
        return cls(*shown, spec, function, arguments, positional, floats, framework, Pace(limit))

    @property
    def finite_inputs(self) -> bool:
        """Whether no floating-point input holds a NaN or an infinity."""
        return all(np.isfinite(self.values[name]).all() for name in self.float_inputs)

    def call(self, wrap: Wrap | None = None, see: Callable[[object], None] | None = None) -> dict[str, Array]:
        """The outputs by name, as plain arrays: float64, complex128, or integers and bools as returned.

        Args:
            wrap: applied to the copy of each floating-point input, to evaluate the same function under a model
                of rounding (:mod:`kcheck.oracle.rounded`).
            see: called with the result as the function returned it.

        Raises:
            ReferenceFailed: it raised, or its result does not have the declared names, shapes or kinds.
            TimedOut: it did not finish within its time limit.
        """
        result = self._result({}, wrap)
        if see is not None:
            see(result)
        return self._checked(result, exact=wrap is None)

    def at(self, inputs: Mapping[str, Array], wrap: Wrap | None = None) -> dict[str, Array]:
        """The outputs for other values of some floating-point inputs, for differences.

        Args:
            inputs: float64, or complex128 for a step into the complex plane; in that case the outputs may be
                complex, too.
            wrap: as in :meth:`call`.

        Raises:
            ReferenceFailed: as in :meth:`call`.
        """
        return self._checked(self._result(inputs, wrap), exact=False, analytic=True)

    def _result(self, inputs: Mapping[str, Array], wrap: Wrap | None) -> object:
        given: dict[str, Any] = {}
        for name in self.arguments:
            value = inputs.get(name, self.values[name])
            if isinstance(value, np.ndarray):
                value = value.copy()
                if wrap is not None and name in self.float_inputs:
                    value = wrap(value)
                if self.framework.name != "numpy":
                    value = self._passed(name, value.view(np.ndarray))
            given[name] = value
        first = [given.pop(name) for name in self.arguments[: self.positional]]
        try:
            with (
                limited("the reference", self.pace.limit),
                self.pace.measured(),
                np.errstate(all="ignore"),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")
                return self.function(*first, **given)
        except (Exception, SystemExit) as error:
            raise ReferenceFailed(self._raised(error)) from error

    def _passed(self, name: str, array: Array) -> Any:
        try:
            return passed_array(array, self.framework)[0]
        except FrameworkMissing as error:
            self.fail(f"the reference cannot get {name!r}: {error}", "annotate its parameters with np.ndarray")

    def _raised(self, error: BaseException) -> Finding:
        """A finding at the innermost line of the user's own code, or at the ``def`` if there is no such line."""
        root = Path(self.spec.root).resolve()
        place = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            file = Path(frame.f_code.co_filename)
            own = file.is_relative_to(root) and not file.is_relative_to(Path(__file__).parents[1])
            if own and "site-packages" not in file.parts:
                place = Span(file.relative_to(root).as_posix(), line)
        text = " ".join(str(error).split())
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        fix = wants_tensors(error) if self.framework.name == "numpy" else ""
        return Finding("reference", f"the reference raised {what}", fix=fix, place=place or self.place)

    @property
    def place(self) -> Span:
        """The function's ``def``."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return Span(self.spec.reference.path, code.co_firstlineno if code is not None else 1)

    def fail(
        self, message: str, fix: str, output: str | None = None, index: tuple[int, ...] | None = None
    ) -> NoReturn:
        """Raise ReferenceFailed at the reference's ``def``."""
        raise ReferenceFailed(Finding("reference", message, fix=fix, array=output, index=index, place=self.place))

    def _checked(self, result: object, exact: bool, analytic: bool = False) -> dict[str, Array]:
        declared = list(self.spec.outputs)
        if not isinstance(result, Mapping):
            result = self._in_order(result, declared)
        for name in result:
            if name not in declared:
                hint = did_you_mean(str(name), declared) or f"the outputs are {', '.join(declared)}"
                self.fail(f"the reference returned {name!r}, which is not an output of the spec", hint)
        missing = [name for name in declared if name not in result]
        if missing:
            self.fail(f"the reference did not return the output {missing[0]!r}", "return every declared output")
        return {name: self._output(name, result[name], exact, analytic) for name in declared}

    def _in_order(self, result: object, declared: list[str]) -> dict[str, object]:
        """A result that is not a dict, as outputs by name: a tuple or list has them in the order of the spec."""
        if len(declared) == 1:
            (name,) = declared
            if isinstance(result, tuple) and len(result) == 1:
                (only,) = result
                if getattr(only, "shape", None) == self.shapes[name]:  # `return y,`; else the tuple is the array
                    return {name: only}
            return {name: result}
        names = ", ".join(declared)
        fix = f"return a tuple in the order {names}, or a dict by name"
        if not isinstance(result, tuple | list):
            kind = "nothing" if result is None else f"a value of type {type(result).__name__}"
            self.fail(f"the reference returned {kind} for {len(declared)} outputs", fix)
        if len(result) != len(declared):
            count = f"{len(result)} value{'s' * (len(result) != 1)}"
            self.fail(f"the reference returned {count} for {len(declared)} outputs", fix)
        return dict(zip(declared, result, strict=True))

    def _output(self, name: str, value: object, exact: bool, analytic: bool) -> Array:
        if value is None:
            self.fail(f"the reference returned None for output {name!r}", "return an array", name)
        try:
            if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
                value = as_numpy(value, name)
            # Copying a subclass counts as a use. The model of rounding ends here, so the view is a plain array.
            array: Array = np.array(value, copy=True, subok=True).view(np.ndarray)
        except (TypeError, ValueError, NotAnArray) as error:
            self.fail(
                f"the reference's {name!r} is not an array: {error}", "return a rectangular NumPy array", name
            )
        shape, dtype = self.shapes[name], self.dtypes[name]
        if array.shape != shape:
            self.fail(
                f"the reference's {name!r} has shape {list(array.shape)}, but the spec declares {list(shape)}",
                f"return an array of shape {list(shape)}",
                name,
            )
        kind = array.dtype.kind if array.dtype.kind in "?biufc" else "f" if _extended_float(array.dtype) else "O"
        accepted = {"bool": "b", "int": "biu", "uint": "biu", "float": "biuf", "complex": "biufc"}[dtype.kind]
        if kind == "f" and dtype.kind in ("bool", "int", "uint"):
            # Under a model of rounding, whole numbers may become fractions, but nothing reads them.
            return self._integers(name, array, dtype) if exact else array
        if analytic and kind == "c":
            return array.astype(np.complex128)
        if kind not in accepted:
            self.fail(
                f"the reference's {name!r} is {array.dtype}, but the spec declares {dtype}",
                f"return values that {dtype} can hold",
                name,
            )
        if dtype.is_inexact:
            return array.astype(np.complex128 if dtype.kind == "complex" else np.float64)
        return array

    def _integers(self, name: str, array: Array, dtype: DType) -> Array:
        """The floats returned for an integer or bool output, as integers.

        Raises:
            ReferenceFailed: a float is not a whole number in range; the finding names the element.
        """
        low, high = (0, 1) if dtype.kind == "bool" else (int(dtype.min), int(dtype.max))
        wide = array.astype(np.float64) if array.dtype.itemsize < 8 else array
        # The largest int64 rounds up to 2**63 as a float; the number after it is exact for every dtype.
        fits = (wide == np.floor(wide)) & (wide >= low) & (wide < float(high + 1))
        if not fits.all():
            index = first_index(~fits)
            element = f"{name}{list(index)}" if index else name
            self.fail(
                f"the reference's {element} is {wide[index]}, but the spec declares {dtype}",
                f"return whole numbers from {low} to {high}",
                name,
                index,
            )
        return wide.astype(dtype.numpy)


def _extended_float(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16" or dtype.name.startswith("float8")


def _match(spec: OpSpec, function: Callable[..., object], known: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """The names to pass, and how many of them are passed by position."""

    def fail(message: str, fix: str) -> ReferenceFailed:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = Span(spec.reference.path, code.co_firstlineno if code is not None else 1)
        return ReferenceFailed(Finding("reference", message, fix=fix, place=place))

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise fail(f"the signature of {spec.reference} cannot be read", "write it as a Python function") from error
    named: list[str] = []
    positional = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            return (*named, *(name for name in known if name not in named)), positional
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.name in known:
            named.append(parameter.name)
            positional += parameter.kind is parameter.POSITIONAL_ONLY
        elif parameter.default is parameter.empty:
            fix = did_you_mean(parameter.name, known) or f"the spec has {', '.join(known)}"
            raise fail(f"parameter {parameter.name!r} of {spec.reference} is not an input, param or dim", fix)
    return tuple(named), positional
