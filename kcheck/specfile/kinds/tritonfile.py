"""What the text of a Python file shows of its Triton kernels: parameters, constants, configurations of autotuning.
Nothing of the user's is run.
"""

from __future__ import annotations

import ast
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.tritonuse import read_uses
from kcheck.specfile.literals import full_name

Config: TypeAlias = Mapping[str, "int | float | bool"]
"""A configuration of autotuning: its keyword arguments, ``num_warps`` and ``num_stages``."""

MOST_CONFIGS = 512
_DEFAULTS = {"num_warps": 4, "num_stages": 3}


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A kernel.

    Attributes:
        line: of its ``def``.
        arguments: its parameters that are not constants, in order; ``optional`` are those with a default.
        constexprs: the others; ``given`` are those with a default.
        heuristics: the constants that ``@triton.heuristics`` computes.
        pointers, numbers: the arguments that can only be one of these, as far as the text shows it.
        configs: of ``@triton.autotune``; None if the text does not show them, empty without autotuning.
    """

    line: int
    arguments: tuple[str, ...]
    optional: frozenset[str]
    constexprs: tuple[str, ...]
    given: frozenset[str]
    heuristics: frozenset[str]
    configs: tuple[Config, ...] | None
    pointers: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


def read_triton(file: Path) -> Mapping[str, TritonKernel]:
    """The Triton kernels of a file by name; empty for a file that is not Python or cannot be read."""
    try:
        status = os.stat(file)
        return _read(str(file), status.st_size, status.st_mtime_ns)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}


@lru_cache(maxsize=256)
def _read(path: str, size: int, _changed: int) -> Mapping[str, TritonKernel]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(Path(path).read_bytes())
    names = _Names(tree)
    return {
        node.name: kernel
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (kernel := _kernel(node, names)) is not None
    }


class _Names:
    """What the names at the top level of a file stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.of_triton: dict[str, str] = {}  # a name of the file -> ``triton``, ``triton.jit``
        self.values: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "triton":
                        self.of_triton[alias.asname or "triton"] = alias.name if alias.asname else "triton"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "triton":
                for alias in node.names:
                    self.of_triton[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.values[target.id] = node.value
            elif isinstance(node, ast.FunctionDef):
                last = node.body[-1]
                if len(node.body) <= 2 and isinstance(last, ast.Return) and last.value and not node.args.args:
                    self.values[f"{node.name}()"] = last.value

    def full(self, node: ast.expr) -> str:
        """``triton.jit`` for what a decorator names, whatever the file calls it; empty for anything else."""
        return full_name(node, self.of_triton)


def _kernel(node: ast.FunctionDef, names: _Names) -> TritonKernel | None:
    heuristics: set[str] = set()
    configs: tuple[Config, ...] | None = ()
    is_kernel = False
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = names.full(called).rpartition(".")
        if not name[0].startswith("triton"):
            continue
        is_kernel = is_kernel or name[2] == "jit"
        if isinstance(decorator, ast.Call) and name[2] == "heuristics":
            values = _argument(decorator, "values")
            if isinstance(values, ast.Dict):
                heuristics |= {str(key.value) for key in values.keys if isinstance(key, ast.Constant)}
        elif isinstance(decorator, ast.Call) and name[2] == "autotune":
            configs = _configs(_argument(decorator, "configs"), names)
    if not is_kernel:
        return None
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    positional = len(node.args.posonlyargs) + len(node.args.args)
    with_default = {argument.arg for argument in arguments[positional - len(node.args.defaults) : positional]}
    with_default |= {
        argument.arg
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    constants = tuple(a.arg for a in arguments if a.annotation is not None and _is_constexpr(a.annotation))
    plain = tuple(a.arg for a in arguments if a.arg not in constants)
    return TritonKernel(
        node.lineno,
        plain,
        frozenset(with_default & set(plain)),
        constants,
        frozenset(with_default & set(constants)),
        frozenset(heuristics),
        configs,
        *read_uses(node, plain),
    )


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    """The first argument of a call, by position or by name."""
    return call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == name), None)


def _is_constexpr(annotation: ast.expr) -> bool:
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return str(text).rpartition(".")[2] == "constexpr"


class _UnknownConfig(Exception):
    """A value that the text does not show."""


def _configs(node: ast.expr | None, names: _Names) -> tuple[Config, ...] | None:
    try:
        found = tuple(itertools.islice(_each_config(node, names, {}), MOST_CONFIGS + 1))
    except (_UnknownConfig, TypeError, ValueError, KeyError, IndexError, ZeroDivisionError):
        return None
    return found if len(found) <= MOST_CONFIGS else None


def _each_config(node: ast.expr | None, names: _Names, scope: dict[str, Any], depth: int = 8) -> Iterator[Config]:
    """The configurations of an expression that makes a list of them."""
    if depth == 0:
        raise _UnknownConfig
    if isinstance(node, ast.Name) and node.id in names.values:
        yield from _each_config(names.values[node.id], names, scope, depth - 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and f"{node.func.id}()" in names.values:
        yield from _each_config(names.values[f"{node.func.id}()"], names, scope, depth - 1)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for item in node.elts:
            yield _config(item, names, scope)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _each_config(node.left, names, scope, depth - 1)
        yield from _each_config(node.right, names, scope, depth - 1)
    elif isinstance(node, ast.ListComp):
        for inner in _scopes(node.generators, names, scope):
            yield _config(node.elt, names, inner)
    else:
        raise _UnknownConfig


def _scopes(loops: list[ast.comprehension], names: _Names, scope: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not loops:
        yield scope
        return
    first, *rest = loops
    for value in _value(first.iter, names, scope):
        inner = dict(scope)
        _bind(first.target, value, inner)
        if all(_value(test, names, inner) for test in first.ifs):
            yield from _scopes(rest, names, inner)


def _bind(target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        scope[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part, inner in zip(target.elts, value, strict=True):
            _bind(part, inner, scope)
    else:
        raise _UnknownConfig


def _config(node: ast.expr, names: _Names, scope: dict[str, Any]) -> Config:
    """``triton.Config({...}, num_warps=8)``."""
    if not isinstance(node, ast.Call) or not names.full(node.func).endswith(".Config"):
        raise _UnknownConfig
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    order = ("kwargs", "num_warps", "num_stages")
    given |= dict(zip(order, node.args, strict=False))
    kwargs = _value(given["kwargs"], names, scope) if "kwargs" in given else {}
    options = {
        name: _value(given[name], names, scope) if name in given else default
        for name, default in _DEFAULTS.items()
    }
    found = {**kwargs, **options}
    if not all(isinstance(name, str) and isinstance(value, (int, float)) for name, value in found.items()):
        raise _UnknownConfig
    return found


def _value(node: ast.expr, names: _Names, scope: dict[str, Any]) -> Any:
    """The value of an expression of literals, loop variables and constants of the file."""
    if isinstance(node, ast.Name) and node.id in scope:
        return scope[node.id]
    if isinstance(node, ast.Name) and node.id in names.values:
        return _value(names.values[node.id], names, {})
    if isinstance(node, ast.Dict):
        return {
            _value(key, names, scope): _value(value, names, scope)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(part, names, scope) for part in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        return range(*(_value(part, names, scope) for part in node.args))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = (_value(side, names, scope) for side in (node.left, node.comparators[0]))
        return _COMPARISONS[type(node.ops[0])](left, right)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, names, scope), _value(node.right, names, scope))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise _UnknownConfig from error


_OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: lambda a, b: a**b if abs(b) <= 64 else _too_large(),
}
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _too_large() -> Any:
    raise _UnknownConfig
