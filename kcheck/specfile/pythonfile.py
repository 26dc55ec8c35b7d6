"""Find the definitions at the top level of a Python file by parsing it. No user code is run."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.model import Fault, Span

MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class KeywordSignature:
    """The parameters of a function that can be passed by keyword.

    Attributes:
        required, optional: by name, in order.
        positional: how many can be passed by position; None with ``*args``.
        keywords: whether ``**kwargs`` takes any other.
        positional_only: those that cannot be passed by keyword.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...]
    positional: int | None
    keywords: bool
    positional_only: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PythonDefinition:
    """A name at the top level of a file. ``signature`` is None if a decorator may have changed it."""

    name: str
    line: int
    signature: KeywordSignature | None


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A parsed file.

    Attributes:
        definitions: by name; the last definition of a name counts, as in Python.
        anything: whether a star import may define names that parsing does not find.
        imports: (level, dotted name) of each module that it imports; level 0 is an absolute import.
        fault: why it could not be parsed, in the file ``shown``; None if it was.
    """

    definitions: Mapping[str, PythonDefinition]
    anything: bool
    imports: tuple[tuple[int, str], ...]
    fault: Fault | None


_NOTHING: Mapping[str, PythonDefinition] = {}


def parse_python(path: Path, shown: str) -> PythonFile:
    """Parse a Python file. Cached by its path, size and modification time.

    Args:
        shown: its name in messages.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        return PythonFile(
            _NOTHING, False, (), Fault(Span(shown, 0, 0), f"the file cannot be read: {error.strerror}")
        )
    return _parse(str(path), shown, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=512)
def _parse(path: str, shown: str, size: int, _changed: int) -> PythonFile:
    if size > MAX_BYTES:
        fault = Fault(Span(shown), f"the file has {size} bytes", f"the limit is {MAX_BYTES} bytes")
        return PythonFile(_NOTHING, False, (), fault)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in a user's file are not for kcheck to report
            tree = ast.parse(Path(path).read_bytes(), filename=shown)
    except SyntaxError as error:
        span = Span(shown, max(1, error.lineno or 1), max(1, error.offset or 1))
        return PythonFile(_NOTHING, False, (), Fault(span, f"this is not valid Python: {error.msg}"))
    except (ValueError, RecursionError, MemoryError) as error:
        return PythonFile(_NOTHING, False, (), Fault(Span(shown), f"this is not valid Python: {error}"))
    except OSError as error:
        return PythonFile(
            _NOTHING, False, (), Fault(Span(shown, 0, 0), f"the file cannot be read: {error.strerror}")
        )
    definitions: dict[str, PythonDefinition] = {}
    for definition in _definitions(tree.body):
        definitions[definition.name] = definition
    imports = tuple(_imports(tree))
    return PythonFile(definitions, "*" in definitions, imports, None)


def _definitions(body: Iterable[ast.stmt]) -> Iterator[PythonDefinition]:
    for statement in body:
        match statement:
            case ast.FunctionDef():
                yield PythonDefinition(statement.name, statement.lineno, _signature(statement))
            case ast.AsyncFunctionDef() | ast.ClassDef():
                yield PythonDefinition(statement.name, statement.lineno, None)
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield PythonDefinition(alias.asname or alias.name.partition(".")[0], statement.lineno, None)
            case ast.ImportFrom(names=aliases):
                for alias in aliases:
                    yield PythonDefinition(alias.asname or alias.name, statement.lineno, None)
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from _targets(target)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                yield from _targets(target)
            case ast.If() | ast.For() | ast.While():
                yield from _definitions([*statement.body, *statement.orelse])
            case ast.With(body=inner):
                yield from _definitions(inner)
            case ast.Try():
                handled = [inner for handler in statement.handlers for inner in handler.body]
                yield from _definitions([*handled, *statement.body, *statement.orelse, *statement.finalbody])
            case ast.Match(cases=cases):
                for branch in cases:
                    yield from _definitions(branch.body)


def _targets(target: ast.expr) -> Iterator[PythonDefinition]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield PythonDefinition(node.id, node.lineno, None)


def _signature(function: ast.FunctionDef) -> KeywordSignature | None:
    for decorator in function.decorator_list:
        # Compilers and kcheck.op keep the signature; other decorators may change it.
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = (
            called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        )
        if name not in ("jit", "njit") and ast.unparse(called) not in ("kcheck.op", "op"):
            return None
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = len(arguments.defaults)
    required = [argument.arg for argument in positional[: len(positional) - defaults]]
    optional = [argument.arg for argument in positional[len(positional) - defaults :]]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        (required if default is None else optional).append(argument.arg)
    return KeywordSignature(
        tuple(required),
        tuple(optional),
        None if arguments.vararg is not None else len(positional),
        arguments.kwarg is not None,
        tuple(argument.arg for argument in arguments.posonlyargs),
    )


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (0, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module or node.level:
                yield (node.level, module)
            for alias in node.names:
                # In ``from package import name``, the name may be a module or an attribute of the package.
                yield (node.level, f"{module}.{alias.name}".lstrip("."))
