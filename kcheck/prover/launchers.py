"""The code of a launcher, executed with terms instead of sizes: which kernels it launches, where, and with what.

Only what has an exact meaning for every size is understood: arithmetic of integers, ``min`` and ``max``, branches,
loops with a known number of iterations, arrays that the launcher allocates, and launches. Anything else is the
reason why the launcher is not understood. A branch that the sizes decide leads to two paths.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.generator import element_type
from kcheck.model import DTYPES
from kcheck.prover.assumptions import Assumptions, NoTerm
from kcheck.prover.model import Unsupported
from kcheck.prover.terms import Formula, Poly

_MOST_PATHS = 16
_MOST_STEPS = 2_000
_MOST_CALLS = 8
_SIZES = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
_ORDERS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_FILLED = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like")


@dataclass(frozen=True, eq=False, slots=True)
class LauncherArray:
    """An array as the launcher has it.

    Attributes:
        name: of the spec, or of what the launcher allocates.
        on_host: whether it is NumPy's, so that no kernel can get it.
        is_own: whether the launcher allocates it.
    """

    name: str
    shape: tuple[Poly, ...]
    dtype: str
    on_host: bool = False
    is_own: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class HostScalar:
    """A number that the launcher only passes on, such as a param; ``value``: None if it is not an integer."""

    value: Poly | None


@dataclass(frozen=True, eq=False, slots=True)
class HostObject:
    """An object of Python that is the same for every size."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class HostKernel:
    """A kernel, and what it is launched with as far as that is known. ``named``: of ``kcheck.kernels``."""

    name: str
    named: bool
    grid: tuple[Poly, ...] = ()
    block: tuple[Poly, ...] = ()
    shared: Poly | None = None


HostValue: TypeAlias = (
    "Poly | Formula | LauncherArray | HostScalar | HostObject | HostKernel | tuple[HostValue, ...]"
)


@dataclass(frozen=True, eq=False, slots=True)
class HostLaunch:
    """One launch. ``path``: what holds where it is made; ``line``: of the launcher's file."""

    kernel: HostKernel
    given: tuple[HostValue, ...]
    path: Formula
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class HostPath:
    """One way through a launcher.

    Attributes:
        decisions: of the branches that sizes decide.
        path: the condition to go it.
    """

    decisions: tuple[bool, ...]
    path: Formula
    launches: tuple[HostLaunch, ...]


def host_values(assumed: Assumptions) -> dict[str, HostValue]:
    """What a launcher gets, by name: arrays, dims, and params, which are NumPy's numbers."""
    spec = assumed.spec
    found: dict[str, HostValue] = {name: assumed.names[name] for name in spec.dims}
    found |= {name: HostScalar(assumed.names.get(name)) for name in spec.params}
    for name in (*spec.inputs, *spec.outputs):
        output = spec.outputs.get(name)
        owner = name if output is None or output.alias is None else output.alias
        array = spec.inputs.get(owner) or spec.outputs[owner]
        found[name] = LauncherArray(owner, assumed.shape(array), element_type(array, assumed.dtypes).name)
    return found


def host_paths(
    assumed: Assumptions, launcher: Callable[..., Any], given: Mapping[str, HostValue]
) -> list[HostPath]:
    """Every way through a launcher.

    Raises:
        Unsupported: it does something of which there is no model, or there are too many ways.
    """
    found: list[HostPath] = []
    pending: list[tuple[bool, ...]] = [()]
    while pending:
        if len(found) >= _MOST_PATHS:
            raise Unsupported(f"the launcher has more than {_MOST_PATHS} ways")
        run = HostRun(assumed, pending.pop())
        found.append(run.path_of(launcher, given))
        pending += run.others
    return found


class _ReturnedValue(Exception):
    def __init__(self, value: HostValue | None) -> None:
        self.value = value


class _Stopped(Exception):
    """The launcher raises an exception."""


@dataclass(slots=True)
class _Frame:
    """The names of a function that is executed, and the line before its first one."""

    function: FunctionType
    names: dict[str, HostValue]
    before: int
    depth: int


class HostRun:
    """One way through a launcher.

    Args:
        decisions: of the branches that sizes decide, as far as they are given; another one is taken.
    """

    def __init__(self, assumed: Assumptions, decisions: tuple[bool, ...]) -> None:
        self._assumed = assumed
        self._terms = assumed.terms
        self._given = decisions
        self._taken: list[bool] = []
        self.others: list[tuple[bool, ...]] = []
        """The decisions of the ways that were not gone."""
        self._path = assumed.terms.true
        self._launches: list[HostLaunch] = []
        self._steps = 0
        self._arrays = 0

    def path_of(self, launcher: Callable[..., Any], given: Mapping[str, HostValue]) -> HostPath:
        """Execute a launcher.

        Raises:
            Unsupported: it does something of which there is no model.
        """
        if not isinstance(launcher, FunctionType):
            raise Unsupported("the launcher is not a plain function")
        names: dict[str, HostValue] = {}
        for name, parameter in inspect.signature(launcher).parameters.items():
            if name in given:
                names[name] = given[name]
            elif type(parameter.default) is int:
                names[name] = self._terms.number(parameter.default)
            else:
                raise Unsupported(f"the parameter {name} of the launcher is not in the spec")
        with suppress(_Stopped):  # what was launched before is launched
            self._run(launcher, names, 0)
        return HostPath(tuple(self._taken), self._path, tuple(self._launches))

    # --- functions and statements

    def _run(self, function: FunctionType, names: dict[str, HostValue], depth: int) -> HostValue | None:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, SyntaxError, IndexError) as error:
            raise Unsupported(f"the source of {function.__name__} is not available") from error
        frame = _Frame(function, names, function.__code__.co_firstlineno - 1, depth)
        if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
            raise Unsupported(f"{function.__name__} is not a plain function")
        if depth > _MOST_CALLS:
            raise Unsupported("the launcher calls itself")
        try:
            self._block(tree.body, frame)
        except _ReturnedValue as ended:
            return ended.value
        return None

    def _block(self, statements: Sequence[ast.stmt], frame: _Frame) -> None:
        for statement in statements:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise self._unknown(statement, frame, "a long loop")
            self._statement(statement, frame)

    def _statement(self, statement: ast.stmt, frame: _Frame) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=value):
                self._value(value, frame)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value, frame), frame)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                found = self._binary(operator, self._name(name, statement, frame), self._value(value, frame))
                frame.names[name] = self._or_unknown(found, statement, frame)
            case ast.If(test=test, body=body, orelse=other):
                self._block(body if self._decide(test, frame) else other, frame)
            case ast.Assert(test=test):
                if not self._decide(test, frame):
                    raise _Stopped
            case ast.Raise():
                raise _Stopped
            case ast.For(target=ast.Name() as target, iter=values, body=body, orelse=[]):
                for item in self._iterated(values, frame):
                    self._assign(target, item, frame)
                    self._block(body, frame)
            case ast.Return(value=None):
                raise _ReturnedValue(None)
            case ast.Return(value=ast.expr() as result):
                raise _ReturnedValue(self._value(result, frame))
            case _:
                raise self._unknown(statement, frame, "this statement")

    def _assign(self, target: ast.expr, value: HostValue | None, frame: _Frame) -> None:
        if isinstance(target, ast.Name) and value is not None:
            frame.names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts):
            for one, part in zip(target.elts, value, strict=True):
                self._assign(one, part, frame)
        else:
            raise self._unknown(target, frame, "this assignment")

    def _iterated(self, values: ast.expr, frame: _Frame) -> Iterator[HostValue]:
        if isinstance(values, ast.Call) and self._plain(self._value(values.func, frame)) is range:
            ends = [self._constant(self._value(a, frame)) for a in values.args]
            known = [end for end in ends if end is not None]
            if values.keywords or not 0 < len(known) == len(ends) <= 3 or (len(ends) == 3 and not known[2]):
                raise self._unknown(values, frame, "a loop whose number of iterations depends on a size")
            yield from map(self._terms.number, range(*known))
            return
        found = self._value(values, frame)
        if not isinstance(found, tuple):
            raise self._unknown(values, frame, "a loop whose number of iterations depends on a size")
        yield from found

    def _decide(self, test: ast.expr, frame: _Frame) -> bool:
        """Which way a branch goes: that of the given decision, or another one that is possible."""
        condition = self._condition(self._value(test, frame), test, frame)
        terms, prover = self._terms, self._assumed.prover
        opposite = terms.negated(condition)
        n = len(self._taken)
        if n < len(self._given):
            taken = self._given[n]
        else:
            taken = not prover.holds(self._path, opposite)
            if taken and not prover.holds(self._path, condition):
                self.others.append((*self._taken, False))
        self._taken.append(taken)
        self._path = terms.all((self._path, condition if taken else opposite))
        return taken

    def _condition(self, value: HostValue | None, node: ast.expr, frame: _Frame) -> Formula:
        if isinstance(value, Formula):
            return value
        if isinstance(value, Poly):
            return self._terms.compare("ne", value, self._terms.zero)
        raise self._unknown(node, frame, "a branch on what is not a size")

    # --- expressions

    def _value(self, node: ast.expr, frame: _Frame) -> HostValue:
        match node:
            case ast.Constant(value=value):
                return self._wrapped(value)
            case ast.Name(id=name):
                return self._name(name, node, frame)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self._value(part, frame) for part in parts)
            case ast.Attribute(value=owner, attr=name):
                found = self._attribute(self._value(owner, frame), name)
            case ast.BinOp(left=left, op=operator, right=right):
                found = self._binary(operator, self._value(left, frame), self._value(right, frame))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self._binary(ast.Sub(), self._terms.zero, self._value(operand, frame))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found = self._terms.negated(self._condition(self._value(operand, frame), node, frame))
            case ast.Compare(left=left, ops=operators, comparators=others):
                found = self._compared([self._value(one, frame) for one in (left, *others)], operators)
            case ast.BoolOp(op=operator, values=values):
                found = self._joined(operator, [self._value(one, frame) for one in values])
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._value(body if self._decide(test, frame) else other, frame)
            case ast.Subscript(value=owner, slice=key):
                found = self._item(self._value(owner, frame), self._value(key, frame))
            case ast.Call():
                return self._call(node, frame)
            case _:
                found = None
        return self._or_unknown(found, node, frame)

    def _or_unknown(self, found: HostValue | None, node: ast.AST, frame: _Frame) -> HostValue:
        if found is None:
            raise self._unknown(node, frame, f"`{ast.unparse(node)}`")
        return found

    def _unknown(self, node: ast.AST, frame: _Frame, what: str) -> Unsupported:
        line = frame.before + getattr(node, "lineno", 1)
        return Unsupported(f"line {line} of the launcher: {what} is not understood for all sizes")

    def _name(self, name: str, node: ast.AST, frame: _Frame) -> HostValue:
        if name in frame.names:
            return frame.names[name]
        code = frame.function.__code__
        if name in code.co_varnames or name in code.co_freevars or name in code.co_cellvars:
            raise self._unknown(node, frame, f"`{name}`")
        for scope in (frame.function.__globals__, vars(builtins)):
            if name in scope:
                return self._wrapped(scope[name])
        raise self._unknown(node, frame, f"`{name}`")

    def _wrapped(self, value: object) -> HostValue:
        if type(value) is int:
            return self._terms.number(value)
        if type(value) is bool:
            return self._terms.true if value else self._terms.false
        if type(value) is float or isinstance(value, np.generic):
            return HostScalar(None)
        if type(value) is tuple:
            return tuple(self._wrapped(part) for part in value)
        if _is_dispatcher(value):
            return HostKernel(str(getattr(value, "__name__", "kernel")), named=False)
        return HostObject(value)

    def _plain(self, value: HostValue) -> object:
        return value.value if isinstance(value, HostObject) else None

    def _constant(self, value: HostValue) -> int | None:
        return value.constant if isinstance(value, Poly) else None

    def _attribute(self, owner: HostValue, name: str) -> HostValue | None:
        if isinstance(owner, LauncherArray):
            match name:
                case "shape":
                    return owner.shape
                case "ndim":
                    return self._terms.number(len(owner.shape))
                case "size":
                    return self._size(owner.shape)
                case "dtype" if owner.dtype in ("float16", "float32", "float64") or "int" in owner.dtype:
                    return HostObject(np.dtype(owner.dtype))
            return None
        if isinstance(owner, HostObject) and isinstance(owner.value, ModuleType) and hasattr(owner.value, name):
            return self._wrapped(getattr(owner.value, name))
        return None

    def _size(self, shape: Sequence[Poly]) -> Poly:
        found = self._terms.one
        for extent in shape:
            found = self._terms.product(found, extent)
        return found

    def _binary(self, operator: ast.operator, a: HostValue, b: HostValue) -> HostValue | None:
        sign = _SIZES.get(type(operator))
        if sign is None or not isinstance(a, Poly) or not isinstance(b, Poly):
            return (*a, *b) if sign == "+" and isinstance(a, tuple) and isinstance(b, tuple) else None
        try:
            return self._assumed.binary(sign, a, b)
        except NoTerm:
            return None

    def _compared(self, values: Sequence[HostValue], operators: Sequence[ast.cmpop]) -> HostValue | None:
        numbers = [value.value if isinstance(value, HostScalar) else value for value in values]
        found = []
        for operator, a, b in zip(operators, numbers, numbers[1:], strict=False):
            order = _ORDERS.get(type(operator))
            if order is None or not isinstance(a, Poly) or not isinstance(b, Poly):
                return None
            found.append(self._terms.compare(order, a, b))
        return self._terms.all(found)

    def _joined(self, operator: ast.boolop, values: Sequence[HostValue]) -> HostValue | None:
        parts = [value for value in values if isinstance(value, Formula)]
        if len(parts) < len(values):
            return None
        return self._terms.all(parts) if isinstance(operator, ast.And) else self._terms.any(parts)

    def _item(self, owner: HostValue, key: HostValue) -> HostValue | None:
        if isinstance(owner, HostKernel) and not owner.grid:
            return self._configured(owner, key)
        if _is_named_kernels(self._plain(owner)) and isinstance(self._plain(key), str):
            return HostKernel(str(self._plain(key)), named=True)
        at = self._constant(key)
        if isinstance(owner, tuple) and at is not None and -len(owner) <= at < len(owner):
            return owner[at]
        return None

    # --- calls

    def _call(self, node: ast.Call, frame: _Frame) -> HostValue:
        target = self._value(node.func, frame)
        given = [self._value(argument, frame) for argument in node.args]
        named = {keyword.arg: self._value(keyword.value, frame) for keyword in node.keywords if keyword.arg}
        if len(named) < len(node.keywords):
            raise self._unknown(node, frame, f"`{ast.unparse(node)}`")
        if isinstance(target, HostKernel) and target.grid and not named:
            self._launches.append(HostLaunch(target, tuple(given), self._path, frame.before + node.lineno))
            return HostObject(None)
        called = self._plain(target)
        found = self._of_numbers(called, given) if not named else None
        if found is None:
            found = self._allocated(called, given, named, frame.before + node.lineno)
        if found is None and isinstance(called, FunctionType) and not _is_of_library(called):
            found = self._inlined(called, given, named, frame)
        return self._or_unknown(found, node, frame)

    def _inlined(
        self, called: FunctionType, given: list[HostValue], named: Mapping[str, HostValue], frame: _Frame
    ) -> HostValue | None:
        parameters = list(inspect.signature(called).parameters.values())
        plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        names = {**dict(zip((p.name for p in parameters), given, strict=False)), **named}
        if not plain or called.__closure__ or set(names) != {p.name for p in parameters}:
            return None
        found = self._run(called, names, frame.depth + 1)
        return HostObject(None) if found is None else found

    def _of_numbers(self, called: object, given: Sequence[HostValue]) -> HostValue | None:
        terms = self._terms
        if called is len and len(given) == 1:
            (one,) = given
            if isinstance(one, tuple):
                return terms.number(len(one))
            return one.shape[0] if isinstance(one, LauncherArray) and one.shape else None
        if called is math.prod and len(given) == 1 and isinstance(given[0], tuple):
            given, called = given[0], math.prod
        numbers = [value for value in given if isinstance(value, Poly)]
        if not given or len(numbers) < len(given):
            return None
        if called is int and len(numbers) == 1:
            return numbers[0]
        if called is math.prod:
            return self._size(numbers)
        if called in (min, max) and len(numbers) > 1:
            found = numbers[0]
            for other in numbers[1:]:
                found = terms.least(found, other) if called is min else terms.most(found, other)
            return found
        return None

    def _allocated(
        self, called: object, given: list[HostValue], named: Mapping[str, HostValue], line: int
    ) -> HostValue | None:
        """An array of an allocation of NumPy or Numba; None for another function, or if its shape is not known."""
        cuda = sys.modules.get("numba.cuda")
        on_host = any(called is getattr(np, name) for name in _FILLED)
        like = called in (np.zeros_like, np.ones_like, np.empty_like, getattr(cuda, "device_array_like", np))
        if called is getattr(cuda, "to_device", np):
            if len(given) != 1 or named or not isinstance(given[0], LauncherArray) or not given[0].on_host:
                return None
            return self._array(given[0].shape, given[0].dtype, line, on_host=False)
        if like and len(given) == 1 and not named and isinstance(given[0], LauncherArray):
            return self._array(given[0].shape, given[0].dtype, line, on_host=on_host)
        if like or not (on_host or called is getattr(cuda, "device_array", np)):
            return None
        values = dict(
            zip(("shape", "fill_value", "dtype") if called is np.full else ("shape", "dtype"), given, strict=False)
        )
        values |= named
        shape, dtype = values.pop("shape", None), values.pop("dtype", None)
        values.pop("fill_value", None)
        extents = shape if isinstance(shape, tuple) else (shape,)
        known = [extent for extent in extents if isinstance(extent, Poly)]
        if values or dtype is None or len(known) < len(extents):
            return None
        plain = self._plain(dtype)
        if not isinstance(plain, type | np.dtype):
            return None
        try:
            name = str(np.dtype(plain).name)
        except TypeError:
            return None
        return self._array(tuple(known), name, line, on_host=on_host) if name in DTYPES else None

    def _array(self, shape: tuple[Poly, ...], dtype: str, line: int, *, on_host: bool) -> LauncherArray:
        self._arrays += 1
        return LauncherArray(
            f"array {self._arrays} of the launcher (line {line})", shape, dtype, on_host, is_own=True
        )

    def _configured(self, kernel: HostKernel, sizes: HostValue) -> HostKernel | None:
        """A kernel with its grid and block: ``kernel[grid, block]``, ``[grid, block, shared]`` for one of
        ``kcheck.kernels``, ``[grid, block, stream, shared]`` for Numba."""
        parts = sizes if isinstance(sizes, tuple) else (sizes,)
        if len(parts) not in ((2, 3) if kernel.named else (2, 4)):
            return None
        grid, block = self._three(parts[0]), self._three(parts[1])
        shared: HostValue = self._terms.zero if len(parts) == 2 else parts[-1]
        if len(parts) == 4 and self._constant(parts[2]) != 0:
            return None
        if grid is None or block is None or not isinstance(shared, Poly):
            return None
        return HostKernel(kernel.name, kernel.named, grid, block, shared)

    def _three(self, sizes: HostValue) -> tuple[Poly, ...] | None:
        parts = sizes if isinstance(sizes, tuple) else (sizes,)
        known = [part for part in parts if isinstance(part, Poly)]
        if not 0 < len(known) == len(parts) <= 3:
            return None
        return tuple((*known, self._terms.one, self._terms.one)[:3])


def _is_dispatcher(value: object) -> bool:
    module = sys.modules.get("numba.cuda.dispatcher")
    return module is not None and isinstance(value, module.CUDADispatcher)


def _is_named_kernels(value: object) -> bool:
    module = sys.modules.get("kcheck.device.kinds.named")
    return module is not None and value is module.kernels


def _is_of_library(function: FunctionType) -> bool:
    """Whether a function is not part of the user's code, so that its source may differ from what it does."""
    return function.__module__.partition(".")[0] in ("numba", "numpy", "kcheck", "triton", "torch", "cupy")
