"""Convert Python literals, the arguments of a decorator, to the nodes of a spec. The decorator is not run."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.model import DTYPES, Fault, Span
from kcheck.nearest import did_you_mean
from kcheck.specfile.given import BUILTIN_DTYPES, range_node
from kcheck.specfile.yamltree import MAX_DEPTH, MAX_NODES, YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import ExpressionError, evaluate, parse, shorten

_FUNCTIONS = ("reference", "launcher")
"""Arguments that name functions. ``from`` of a distribution also names one."""
_FIX = "write a literal, or a name that this file assigns a literal once"


class SourceText:
    """The text of a Python file, to compute places in it."""

    def __init__(self, file: str, text: bytes) -> None:
        """
        Args:
            file: its name in messages.
        """
        self.file = file
        self._lines = text.split(b"\n")

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """The place of a node; columns count characters, not bytes."""
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else b""
        return Span(self.file, node.lineno, len(line[: node.col_offset].decode("utf-8", "replace")) + 1)


def full_name(node: ast.expr, imported: Mapping[str, str]) -> str:
    """The full name of an expression, such as ``numba.cuda.jit``,
    in a file with these imports; empty if unknown."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in imported:
        return ""
    return ".".join((imported[node.id], *parts))


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names at the top level of a Python file.

    Attributes:
        imported: the full name of each imported name: ``numba.cuda`` for ``cuda``.
        bound: every name that the file binds, with its value if it is assigned exactly once, otherwise None.
    """

    imported: Mapping[str, str]
    bound: Mapping[str, ast.expr | None]

    @classmethod
    def of(cls, tree: ast.Module) -> FileNames:
        """The names of a file."""
        imported: dict[str, str] = {}
        bound: dict[str, ast.expr | None] = {}
        for name, value, origin in _bindings(tree.body):
            bound[name] = None if name in bound else value
            if origin:
                imported[name] = origin
        for node in ast.walk(tree):  # a function may assign to a global
            if isinstance(node, ast.Global):
                bound |= dict.fromkeys(node.names)
        return cls(imported, bound)

    def full(self, node: ast.expr) -> str:
        """The full name of an expression, such as ``numba.cuda.jit``, under any alias; empty if unknown."""
        return full_name(node, self.imported)

    def is_kernel(self, function: ast.FunctionDef) -> bool:
        """Whether ``@cuda.jit`` of Numba or ``@triton.jit`` decorates a function."""
        for decorator in function.decorator_list:
            name = self.full(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.rpartition(".")[2] == "jit" and name.startswith(("numba.cuda.", "triton.")):
                return True
        return False


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, str]]:
    """(name, the assigned expression or None, the full name of the import or ""), in order."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, None, ""
            case ast.Import(names=aliases):
                for alias in aliases:
                    first = alias.name.partition(".")[0]
                    yield alias.asname or first, None, alias.name if alias.asname else first
            case ast.ImportFrom(names=aliases, level=level):
                for alias in aliases:
                    origin = f"{statement.module or ''}.{alias.name}" if not level else ""
                    yield alias.asname or alias.name, None, origin
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, ""
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, ""
            case _:
                for inner in ast.iter_child_nodes(statement):
                    if isinstance(inner, ast.stmt):
                        yield from ((name, None, origin) for name, _, origin in _bindings([inner]))
                    for node in ast.walk(inner) if isinstance(inner, ast.expr) else ():
                        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                            yield node.id, None, ""


class _Refused(Exception):
    """An expression whose value the text does not show."""

    def __init__(self, node: ast.expr, where: str, what: str, fix: str = _FIX) -> None:
        super().__init__(what)
        self.node, self.what, self.fix = node, f"{where}: {what}", fix


class Literals:
    """The arguments of one decorator.

    Attributes:
        faults: the errors in arguments that cannot be read.
    """

    def __init__(self, source: SourceText, module: str, names: FileNames) -> None:
        """
        Args:
            module: the path of the file, relative to the project root, as in specs.
        """
        self.faults: list[Fault] = []
        self._source = source
        self._module = module
        self._names = names
        self._count = 0

    def fault(self, node: ast.expr, what: str, fix: str) -> None:
        """Report an error at an argument."""
        self.faults.append(Fault(self._source.span(node), what, fix))

    def node(self, node: ast.expr, where: str) -> YamlNode:
        """The node of an argument. Reports a fault and returns an empty node if the argument cannot be read.

        Args:
            where: the path of the argument in messages: ``dims.N``.
        """
        try:
            return self._node(node, where, 0)
        except _Refused as refused:
            self.fault(refused.node, refused.what, refused.fix)
        except SpecError as error:
            self.faults.extend(fault for fault in error.faults if isinstance(fault, Fault))
        return self._scalar(node, None)

    def _node(self, node: ast.expr, where: str, depth: int) -> YamlNode:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_NODES:
            raise _Refused(node, where, "this is nested too deeply or too large", "split it into several ops")
        match node:
            case ast.Constant(value=str() | bool() | int() | float() | None as value):
                return self._constant(node, value, where)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                found = [self._node(item, f"{where}[{n}]", depth + 1) for n, item in enumerate(items)]
                return YamlList(self._source.span(node), tuple(found))
            case ast.Dict(keys=keys, values=values):
                return self._map(node, list(zip(keys, values, strict=True)), where, depth)
            case ast.UnaryOp() | ast.BinOp():
                return self._number(node, where)
            case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]):
                whole = [self._integer(argument, where, depth) for argument in arguments]
                if 1 <= len(whole) <= 3 and 0 not in whole[2:]:
                    return range_node(range(*whole), self._source.span(node), where)
                raise _Refused(node, where, "range() takes one to three whole numbers", "write range(1, 65)")
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=words) if all(w.arg for w in words):
                pairs: list[tuple[ast.expr | None, ast.expr]] = [
                    (ast.copy_location(ast.Constant(word.arg), word.value), word.value) for word in words
                ]
                return self._map(node, pairs, where, depth)
            case ast.Name() | ast.Attribute():
                return self._named(node, where, depth)
            case ast.Lambda() if _names_function(where):
                what = "a lambda has no name, and a spec names its functions"
                raise _Refused(node, where, what, "define a function at the top level of the file, and name it")
        text = shorten(ast.unparse(node), 60)
        raise _Refused(node, where, f"{text} cannot be read without running this file")

    def _constant(self, node: ast.Constant, value: bool | int | float | str | None, where: str) -> YamlScalar:
        """A literal, within the limits for YAML."""
        if isinstance(value, int) and value.bit_length() > 265:
            raise _Refused(node, where, "this integer is too large", "the limit is 80 digits")
        if isinstance(value, float) and math.isinf(value):
            raise _Refused(node, where, "this number is too large for a float64", "use a smaller one")
        return self._scalar(node, value)

    def _map(
        self, node: ast.expr, pairs: list[tuple[ast.expr | None, ast.expr]], where: str, depth: int
    ) -> YamlMap:
        entries: dict[str, YamlEntry] = {}
        for key, value in pairs:
            if key is None:
                raise _Refused(value, where, "'**' cannot be read without running this file", "write the keys")
            held = self._node(key, where, depth + 1)
            if not isinstance(held, YamlScalar):
                raise _Refused(key, where, "a key must be a name, not a list or a mapping", "write a string")
            if held.text in entries:
                first = entries[held.text].span
                raise _Refused(
                    key, where, f"duplicate key {held.text!r}", f"it is first set on line {first.line}; remove one"
                )
            inner = f"{where}.{held.text}"
            entries[held.text] = YamlEntry(held.text, held.span, self._node(value, inner, depth + 1))
        return YamlMap(self._source.span(node), entries)

    def _number(self, node: ast.expr, where: str) -> YamlNode:
        """``-1``, ``2**12``, ``4096 + 1``; an expression too large is refused, not computed."""
        if any(isinstance(part, ast.Name | ast.Call | ast.Attribute) for part in ast.walk(node)):
            raise _Refused(
                node, where, f"{shorten(ast.unparse(node), 60)} cannot be read without running this file"
            )
        try:
            value = evaluate(parse(ast.unparse(node)), {})
        except ExpressionError as error:
            raise _Refused(node, where, f"{shorten(ast.unparse(node), 60)}: {error.what}") from None
        if not isinstance(value, int | float):
            raise _Refused(node, where, f"{shorten(ast.unparse(node), 60)} is not a number", "write a number")
        return self._scalar(node, value)

    def _integer(self, node: ast.expr, where: str, depth: int) -> int:
        held = self._node(node, where, depth + 1)
        if isinstance(held, YamlScalar) and type(held.value) is int:
            return held.value
        raise _Refused(node, where, "range() takes whole numbers", "write range(1, 65)")

    def _named(self, node: ast.Name | ast.Attribute, where: str, depth: int) -> YamlNode:
        """A dtype, a constant of the file, or a function."""
        last = node.attr if isinstance(node, ast.Attribute) else node.id
        known = self._names.bound
        if isinstance(node, ast.Name):
            value = known.get(node.id)
            if value is not None and (isinstance(value, ast.Constant) or not _names_function(where)):
                return self._node(value, where, depth + 1)
            if node.id in BUILTIN_DTYPES and node.id not in known:
                last = BUILTIN_DTYPES[node.id]
            elif node.id not in known:
                fix = did_you_mean(node.id, known) or "define it at the top level of the file"
                raise _Refused(node, where, f"{node.id!r} is not defined in this file", fix)
            elif _names_function(where):
                return self._scalar(node, f"{self._module}:{node.id}")
        full = self._names.full(node)
        last = (full.rpartition(".")[2] or last).rstrip("_")  # np.bool_
        if last in DTYPES and (isinstance(node, ast.Attribute) or full or last not in known):
            return self._scalar(node, last)
        if isinstance(node, ast.Attribute) and _names_function(where):
            fix = "import it: from module import function"
            raise _Refused(node, where, f"{ast.unparse(node)} is not a name of this file", fix)
        raise _Refused(node, where, f"{ast.unparse(node)} cannot be read without running this file")

    def _scalar(self, node: ast.expr, value: bool | int | float | str | None) -> YamlScalar:
        span = self._source.span(node)
        text = "null" if value is None else str(value)
        content = None
        plain = isinstance(node, ast.Constant) and isinstance(value, str) and node.lineno == node.end_lineno
        if plain and (node.end_col_offset or 0) - node.col_offset == len(text.encode()) + 2:
            content = Span(span.file, span.line, span.column + 1)
        return YamlScalar(span, value, text, content)


def _names_function(where: str) -> bool:
    return where in _FUNCTIONS or where.endswith(".from")
