"""Read the parameters, constants and autotuning configurations of Triton kernels from the text of a Python file.
No user code is run.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.specfile.kinds.tritonconfigs import Config, ShownValues, read_values
from kcheck.specfile.kinds.tritonuse import read_uses
from kcheck.specfile.literals import FileNames, full_name


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A kernel.

    Attributes:
        line: the line of its ``def``.
        arguments: its parameters that are not constants, in order; ``optional`` are those with a default.
        constexprs: its constants, in order; ``given`` are those with a default.
        heuristics: the constants that ``@triton.heuristics`` computes.
        pointers, numbers: the arguments that can only be pointers, or only numbers, as far as the text shows it.
        defaults: the defaults that are numbers, by constant.
        configs: those of ``@triton.autotune``; None if the text does not show them, empty without autotuning.
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
    defaults: Mapping[str, int | float | bool] = field(default_factory=dict)


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
    values = read_values(tree, FileNames.of(tree).imported)
    return {
        node.name: kernel
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (kernel := _kernel(node, names, values[node.name])) is not None
    }


class _Names:
    """The imports at the top level of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.of_triton: dict[str, str] = {}  # a name of the file -> ``triton``, ``triton.jit``
        for node in tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "triton":
                        self.of_triton[alias.asname or "triton"] = alias.name if alias.asname else "triton"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "triton":
                for alias in node.names:
                    self.of_triton[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full(self, node: ast.expr) -> str:
        """The full name of a decorator, such as ``triton.jit``,
        under any alias; empty if it is not from Triton."""
        return full_name(node, self.of_triton)


def _kernel(node: ast.FunctionDef, names: _Names, shown: ShownValues) -> TritonKernel | None:
    heuristics: set[str] = set()
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
        shown.configs,
        *read_uses(node, plain),
        {name: value for name, value in shown.defaults.items() if name in constants},
    )


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    """The first argument of a call, by position or by name."""
    return call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == name), None)


def _is_constexpr(annotation: ast.expr) -> bool:
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return str(text).rpartition(".")[2] == "constexpr"
