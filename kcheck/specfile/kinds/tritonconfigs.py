"""The configurations of ``@triton.autotune``, from the text of a file: lists, loops, functions that return them.

No user code is run. This module evaluates a small subset of Python, within limits. Values that need anything else,
or anything outside the file, are unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.operations import (
    BUILTINS,
    COMPARISONS,
    LIBRARY,
    NOT_SHOWN,
    UNARY,
    Unknown,
    apply,
    bounded,
    call_method,
    items_of,
)
from kcheck.specfile.literals import full_name

Config: TypeAlias = Mapping[str, "int | float | bool"]
"""A configuration of autotuning: its keyword arguments, ``num_warps`` and ``num_stages``."""

MOST_CONFIGS = 512
_MOST_STEPS = 200_000
_MOST_CALLS = 16
_OPTIONS = {"num_warps": 4, "num_stages": 3}


@dataclass(frozen=True, slots=True)
class _Made:
    """A ``triton.Config``."""

    kwargs: dict[str, Any]
    num_warps: Any
    num_stages: Any


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the file, or a lambda, with the names around it."""

    node: ast.FunctionDef | ast.Lambda
    scope: dict[str, Any]


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _LoopEnd(Exception):
    """``break``, or ``continue``."""

    def __init__(self, *, leaves: bool) -> None:
        super().__init__()
        self.leaves = leaves


_UNKNOWN = object()
"""The value of a name whose value the text does not show."""


@dataclass(frozen=True, slots=True)
class ShownValues:
    """The configurations and defaults of a function, as far as the text shows them.

    Attributes:
        configs: those of ``@triton.autotune``; None if the text does not show them, empty without autotuning.
        defaults: the defaults that are numbers, by parameter.
    """

    configs: tuple[Config, ...] | None
    defaults: Mapping[str, int | float | bool]


def read_values(tree: ast.Module, imported: Mapping[str, str]) -> dict[str, ShownValues]:
    """The configurations and defaults of each function at the top level of a file.

    Args:
        imported: the full name of each name that the file imports, such as ``triton.autotune`` for ``autotune``.
    """
    reader = _TopLevel(imported)
    found: dict[str, ShownValues] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            configs: tuple[Config, ...] | None = ()
            for decorator in statement.decorator_list:
                if _is_autotune(decorator, imported):
                    configs = reader.configs(decorator)
            found[statement.name] = ShownValues(configs, reader.defaults(statement.args))
        reader.top(statement)
    return found


def _is_autotune(node: ast.expr, imported: Mapping[str, str]) -> bool:
    name = full_name(node.func, imported) if isinstance(node, ast.Call) else ""
    return name.startswith("triton.") and name.endswith(".autotune")


class _TopLevel:
    """Execute the statements at the top level of a file, one at a time, and keep the values of its names."""

    def __init__(self, imported: Mapping[str, str]) -> None:
        self.imported = imported
        self.names: dict[str, Any] = {}
        self.steps = 0
        self.calls = 0

    def configs(self, decorator: ast.expr) -> tuple[Config, ...] | None:
        """The configurations in a call of ``triton.autotune``;
        None if the text does not show them, or for too many."""
        assert isinstance(decorator, ast.Call)
        named = (keyword.value for keyword in decorator.keywords if keyword.arg == "configs")
        node = decorator.args[0] if decorator.args else next(named, None)
        try:
            made = items_of(self.value(node, {}))
            return tuple(_config(each) for each in made) if len(made) <= MOST_CONFIGS else None
        except NOT_SHOWN:
            return None

    def defaults(self, signature: ast.arguments) -> dict[str, int | float | bool]:
        """The defaults that are numbers, by parameter."""
        names = [*signature.posonlyargs, *signature.args]
        pairs = [
            *zip(names[len(names) - len(signature.defaults) :], signature.defaults, strict=True),
            *zip(signature.kwonlyargs, signature.kw_defaults, strict=True),
        ]
        found: dict[str, int | float | bool] = {}
        for argument, node in pairs:
            try:
                value = self.value(node, {})
            except NOT_SHOWN:
                continue
            if isinstance(value, (int, float)):
                found[argument.arg] = value
        return found

    def top(self, statement: ast.stmt) -> None:
        """Execute a statement. If that is not possible, the values that it changes become unknown."""
        try:
            self.run([statement], self.names)
        except (_Returned, _LoopEnd, *NOT_SHOWN):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.names[node.id] = _UNKNOWN
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):  # configs.append(...)
                    self.names[node.value.id] = _UNKNOWN

    # --- statements

    def run(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None:
        """Execute statements."""
        for statement in body:
            self._step()
            match statement:
                case ast.Assign(targets=targets, value=value):
                    result = self.value(value, scope)
                    for target in targets:
                        self._bind(target, result, scope)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, self.value(value, scope), scope)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    scope[name] = apply(op, self._name(name, scope), self.value(value, scope))
                case ast.If(test=test, body=then, orelse=other):
                    self.run(then if self.value(test, scope) else other, scope)
                case ast.For(orelse=[]):
                    self._for(statement, scope)
                case ast.Return(value=value):
                    raise _Returned(None if value is None else self.value(value, scope))
                case ast.Break() | ast.Continue():
                    raise _LoopEnd(leaves=isinstance(statement, ast.Break))
                case ast.Expr(value=value):
                    if not isinstance(value, ast.Constant):
                        self.value(value, scope)
                case ast.FunctionDef(name=name):
                    scope[name] = _Function(statement, scope)
                case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.ClassDef() | ast.Assert():
                    pass
                case _:
                    raise Unknown

    def _for(self, statement: ast.For, scope: dict[str, Any]) -> None:
        for item in items_of(self.value(statement.iter, scope)):
            self._bind(statement.target, item, scope)
            try:
                self.run(statement.body, scope)
            except _LoopEnd as end:
                if end.leaves:
                    return

    def _bind(self, target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, item in zip(target.elts, items_of(value), strict=True):
                self._bind(part, item, scope)
        else:
            raise Unknown

    # --- expressions

    def value(self, node: ast.expr | None, scope: dict[str, Any]) -> Any:
        """The value of an expression."""
        self._step()
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [item for part in parts for item in self._spread(part, scope)]
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return apply(op, self.value(left, scope), self.value(right, scope))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return UNARY[type(op)](self.value(operand, scope))
            case ast.BoolOp(op=op, values=values):
                return self._bool(op, values, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.IfExp(test=test, body=then, orelse=other):
                return self.value(then if self.value(test, scope) else other, scope)
            case ast.ListComp(elt=item, generators=loops) | ast.GeneratorExp(elt=item, generators=loops):
                return [self.value(item, inner) for inner in self._scopes(loops, scope)]
            case ast.Subscript(value=value, slice=place):
                return self.value(value, scope)[self.value(place, scope)]
            case ast.Lambda():
                return _Function(node, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Call():
                return self._call(node, scope)
        raise Unknown

    def _name(self, name: str, scope: dict[str, Any]) -> Any:
        found = scope[name] if name in scope else self.names.get(name, _UNKNOWN)
        if found is _UNKNOWN:
            raise Unknown
        return found

    def _spread(self, node: ast.expr, scope: dict[str, Any]) -> Sequence[Any]:
        if isinstance(node, ast.Starred):
            return items_of(self.value(node.value, scope))
        return (self.value(node, scope),)

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr], scope: dict[str, Any]) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            found |= (
                self.value(value, scope) if key is None else {self.value(key, scope): self.value(value, scope)}
            )
        return found

    def _bool(self, op: ast.boolop, values: Sequence[ast.expr], scope: dict[str, Any]) -> Any:
        found = None
        for value in values:
            found = self.value(value, scope)
            if bool(found) == isinstance(op, ast.Or):
                break
        return found

    def _compare(self, node: ast.Compare, scope: dict[str, Any]) -> bool:
        left = self.value(node.left, scope)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, scope)
            if not COMPARISONS[type(op)](left, right):
                return False
            left = right
        return True

    def _scopes(self, loops: Sequence[ast.comprehension], scope: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not loops:
            yield scope
            return
        first, *rest = loops
        for item in items_of(self.value(first.iter, scope)):
            inner = dict(scope)
            self._bind(first.target, item, inner)
            if all(self.value(test, inner) for test in first.ifs):
                yield from self._scopes(rest, inner)

    def _attribute(self, node: ast.Attribute, scope: dict[str, Any]) -> Any:
        if node.attr == "backend" and ast.unparse(node.value).endswith(".get_current_target()"):
            return "cuda"  # the device is one of NVIDIA
        owner = self.value(node.value, scope)
        if isinstance(owner, _Made) and node.attr in ("kwargs", *_OPTIONS):
            return getattr(owner, node.attr)
        raise Unknown

    # --- calls

    def _call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        function = node.func
        name = full_name(function, self.imported)
        if name.startswith("triton.") and name.endswith(".Config"):
            return self._made(node, scope)
        arguments = [item for part in node.args for item in self._spread(part, scope)]
        named = {k.arg: self.value(k.value, scope) for k in node.keywords if k.arg is not None}
        if len(named) < len(node.keywords):
            raise Unknown
        if name in LIBRARY:
            return LIBRARY[name](*arguments, **named)
        if isinstance(function, ast.Attribute) and not name:
            return call_method(self.value(function.value, scope), function.attr, arguments, named)
        if isinstance(function, ast.Name) and function.id not in scope and function.id not in self.names:
            return self._builtin(function.id, arguments, named)
        return self._invoke(self.value(function, scope), arguments, named)

    def _builtin(self, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        if name in ("filter", "map") and len(arguments) == 2 and not named:
            results = [(item, self._invoke(arguments[0], [item], {})) for item in items_of(arguments[1])]
            return [item if name == "filter" else result for item, result in results if result or name == "map"]
        if name not in BUILTINS:
            raise Unknown
        return bounded(BUILTINS[name](*arguments, **named))

    def _made(self, node: ast.Call, scope: dict[str, Any]) -> _Made:
        """``triton.Config({...}, num_warps=8)``; its other arguments, such as ``pre_hook``, are not needed."""
        order = ("kwargs", *_OPTIONS)
        given = dict(zip(order, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg in order}
        if len(node.args) > len(order) or any(keyword.arg is None for keyword in node.keywords):
            raise Unknown
        values = {name: self.value(part, scope) for name, part in given.items()}
        return _Made(**{"kwargs": {}, **_OPTIONS, **values})

    def _invoke(self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if not isinstance(function, _Function) or self.calls >= _MOST_CALLS:
            raise Unknown
        signature = function.node.args
        names = [argument.arg for argument in (*signature.posonlyargs, *signature.args)]
        if signature.vararg or signature.kwarg or signature.kwonlyargs or len(arguments) > len(names):
            raise Unknown
        inner = {} if function.scope is self.names else dict(function.scope)
        first = len(names) - len(signature.defaults)
        for name, default in zip(names[first:], signature.defaults, strict=True):
            inner[name] = self.value(default, function.scope)
        inner |= {**dict(zip(names, arguments, strict=False)), **named}
        if not set(names) <= set(inner) or not set(named) <= set(names):
            raise Unknown
        self.calls += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, inner)
            self.run(function.node.body, inner)
        except _Returned as returned:
            return returned.value
        finally:
            self.calls -= 1
        return None

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Unknown


def _config(made: Any) -> Config:
    if not isinstance(made, _Made):
        raise Unknown
    found = {**made.kwargs, **{name: getattr(made, name) for name in _OPTIONS}}
    if not all(isinstance(name, str) and isinstance(value, (int, float)) for name, value in found.items()):
        raise Unknown
    return found
