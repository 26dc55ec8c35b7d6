"""Specs declared with ``@kcheck.op(...)`` in Python files, read from the text without running user code.

The arguments of the decorator become the tree that the same spec would have as YAML, each node with its place in
the Python file, so a declared spec has the checks, messages and cases of its YAML (``kcheck spec print``).
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.model import Fault, Span
from kcheck.model.paths import OP_MARK, source_file
from kcheck.nearest import did_you_mean
from kcheck.specfile.literals import FileNames, Literals, SourceText
from kcheck.specfile.paths import find_root, shown
from kcheck.specfile.pythonfile import parse_python
from kcheck.specfile.yamltree import YamlEntry, YamlMap, YamlNode, YamlScalar, read

DECORATOR = "kcheck.op"


@dataclass(frozen=True, slots=True)
class _Declared:
    """A ``@kcheck.op`` decorator and the function that it decorates."""

    op: str
    function: ast.FunctionDef
    call: ast.Call


@dataclass(frozen=True, slots=True)
class _File:
    declared: tuple[_Declared, ...]
    names: FileNames
    source: SourceText
    faults: tuple[Fault, ...]


_DECORATED = re.compile(rb"^[ \t]*@.*\bop\b", re.MULTILINE)
"""Every file that declares an op has such a line; other files are not parsed."""
_NOTHING = _File((), FileNames({}, {}), SourceText("", b""), ())


def read_spec(path: Path) -> tuple[YamlMap, list[Fault]]:
    """The tree of a spec: of a YAML file, or of an op that a Python file declares.

    Args:
        path: ``softmax.yaml``, ``kernels.py::softmax``, or ``kernels.py`` if it declares one op.

    Returns:
        The tree, and the faults that do not prevent a tree.

    Raises:
        SpecError: the file cannot be read; it declares no such op; an argument is not a literal; a Python file is
            in no project.
    """
    source, op = source_file(path)
    if source.suffix != ".py":
        return read(path, shown(path))
    if not source.exists():
        return read(source, shown(source))  # raises the error that the file does not exist
    found = _parsed(source)
    if found.faults:
        raise SpecError(found.faults)
    known = [declared.op for declared in found.declared]
    chosen = [declared for declared in found.declared if op in ("", declared.op)]
    if len(chosen) != 1:
        raise SpecError([_not_one(source, op, known)])
    return _tree(chosen[0], found, source, find_root(source)), []


def declared_specs(file: Path) -> tuple[Path, ...]:
    """``kernels.py::softmax`` for each op that a Python file declares.

    The file itself if it seems to declare ops but none can be read: reading it as a spec reports why.
    """
    found = _parsed(file)
    if found.faults and not found.declared:
        return (file,)
    return tuple(Path(f"{file}{OP_MARK}{declared.op}") for declared in found.declared)


def _not_one(source: Path, op: str, known: list[str]) -> Fault:
    place = Span(shown(source))
    if not known:
        fix = "decorate a kernel with @kcheck.op(...), or name a .yaml file"
        return Fault(place, "this file declares no op", fix)
    if op in known:
        return Fault(place, f"this file declares the op {op!r} more than once", "rename one of them")
    if op:
        near = did_you_mean(op, known) or f"it declares {', '.join(known)}"
        return Fault(place, f"this file declares no op {op!r}", near)
    fix = f"name one of them, such as {shown(source)}{OP_MARK}{known[0]}"
    return Fault(place, f"this file declares {len(known)} ops: {', '.join(known)}", fix)


def _parsed(source: Path) -> _File:
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return _NOTHING
    return _parse(str(source), shown(source), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=512)
def _parse(path: str, file: str, _size: int, _changed: int) -> _File:
    """Cached by path, size and modification time: a command reads each Python file of a folder several times."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return _NOTHING
    if b"kcheck" not in data or not _DECORATED.search(data):
        return _NOTHING
    if (fault := parse_python(Path(path), file).fault) is not None:
        return _File((), FileNames({}, {}), SourceText(file, data), (fault,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(data, filename=file)
    names, source = FileNames.of(tree), SourceText(file, data)
    declared: list[_Declared] = []
    faults: list[Fault] = []
    top = set(_top_level(tree.body))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if names.full(called) != DECORATOR:
                continue
            if not isinstance(node, ast.FunctionDef):
                faults.append(Fault(source.span(node), "kcheck.op decorates functions", "declare a function"))
            elif not isinstance(decorator, ast.Call):
                fix = "write @kcheck.op(dims=..., outputs=..., reference=...)"
                faults.append(Fault(source.span(decorator), "kcheck.op has no arguments", fix))
            elif node in top:
                declared.append(_Declared(_op_name(decorator, node, names), node, decorator))
            elif not _in_function(tree, node):
                what = f"kcheck.op on {node.name!r}, which is in a class"
                faults.append(Fault(source.span(decorator), what, "move it to the top level of the file"))
    return _File(tuple(declared), names, source, tuple(faults))


def _in_function(tree: ast.Module, wanted: ast.FunctionDef) -> bool:
    """Whether a function is local to another function:
    only Python callers can use its declaration, as in a test."""
    return any(
        wanted in ast.walk(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not wanted
    )


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _top_level(statement.body)
            yield from _top_level(getattr(statement, "orelse", []))


def _op_name(call: ast.Call, function: ast.FunctionDef, names: FileNames) -> str:
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "op")]
    name = given[0] if given else None
    if isinstance(name, ast.Name):
        name = names.bound.get(name.id)
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else function.name


def _tree(declared: _Declared, found: _File, path: Path, root: Path) -> YamlMap:
    source, names = found.source, found.names
    call, function = declared.call, declared.function
    module = Path(os.path.relpath(os.path.abspath(path), root)).as_posix()
    literals = Literals(source, module, names)
    place = source.span(call)
    entries: dict[str, YamlEntry] = {}

    def add(key: str, where: Span, node: YamlNode) -> None:
        entries[key] = YamlEntry(key, where, node)

    add("kcheck", place, YamlScalar(place, 1, "1", None))
    add("op", place, YamlScalar(place, declared.op, declared.op, None))
    for number, positional in enumerate(call.args):
        if number:
            literals.fault(positional, "kcheck.op takes one argument by position, the name of the op", "name it")
        else:
            add("op", source.span(positional), literals.node(positional, "op"))
    way = way_of({word.arg for word in call.keywords if word.arg}, names.is_kernel(function))
    text = f"{module}:{function.name}"
    where = source.span(function)
    add(way, where, YamlScalar(where, text, text, None))
    for word in call.keywords:
        if word.arg is None:
            literals.fault(
                word.value, "'**' in kcheck.op cannot be read without running this file", "write the keys"
            )
        elif word.arg in ("kernel", "function"):
            what = f"{word.arg!r} in kcheck.op: the decorated function is the {way}"
            literals.faults.append(Fault(source.span(word), what, f"remove {word.arg!r}"))
        else:
            add(word.arg, source.span(word), literals.node(word.value, word.arg))
    if literals.faults:
        raise SpecError(literals.faults)
    return YamlMap(place, entries)


def way_of(keys: set[str], is_kernel: bool) -> str:
    """The key of the decorated function in the spec: ``kernel``,
    or ``function`` if it takes and returns arrays."""
    return "kernel" if is_kernel or keys & {"launch", "launcher", "compile"} else "function"


def argument_places(file: str, line: int) -> Mapping[str, Span]:
    """The places of the keyword arguments of the decorator at a line,
    for a spec that is built from their values."""
    try:
        data = Path(file).read_bytes()
        tree = ast.parse(data)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    source = SourceText(shown(Path(file)), data)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "op":
                return {word.arg: source.span(word) for word in node.keywords if word.arg}
    return {}
