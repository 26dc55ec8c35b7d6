"""Which line of Python or CUDA C++ makes a kernel compute in float64.

The lines of the instructions are not enough: a constant in a device function shows up wherever its result is used,
and LLVM moves conversions to the function's first line. So the float64 instructions are put into groups that share
registers, and the source lines of each group are searched for a float64: a Python float, a call of ``float``, or a
name that was assigned one. In CUDA C++ it is a literal without the suffix f.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from kcheck.dataclass import dataclass
from kcheck.linter.families import computes_in_float64
from kcheck.linter.frames import Frames
from kcheck.model import Span
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import Call, Instruction

_NARROW = re.compile(r"b?float16|float32|half|u?int\d*|bool_?|range|len")
"""Calls that do not return a float64, whatever their argument."""
_WIDE = frozenset({"float", "float64", "double"})
_MATH = frozenset({"pi", "e", "tau", "inf", "nan", "euler_gamma"})


@dataclass(frozen=True, slots=True)
class Double:
    """A line that makes a kernel compute in float64.

    Attributes:
        constants: source text of the float64 constants on the line; empty if none was found there.
        instruction: a float64 instruction that follows from it; ``count`` of them in all.
        from_integer: whether an integer was converted, as in an operation on an int64 and a float32.
        rounds: whether the line calls ``round``, which Numba computes in float64.
    """

    place: Span
    constants: tuple[str, ...]
    instruction: str
    count: int
    from_integer: bool
    rounds: bool = False


def doubles(operations: Iterable[Instruction | Call], frames: Frames) -> Iterator[Double]:
    """The lines to change, in the order of the code."""
    for group in _groups([o for o in operations if isinstance(o, Instruction) and computes_in_float64(o)]):
        found: dict[Span, dict[str, None]] = {}
        for operation in group:
            for place, text in _constants_of(frames(operation)):
                found.setdefault(place, {})[text] = None
        computing = [o for o in group if o.opcode not in ("cvt", "mov")] or group
        from_integer = any(o.opcode == "cvt" and o.modifiers[-1][:1] in "us" for o in group)
        if found:
            for place, texts in found.items():
                yield Double(place, tuple(texts), computing[0].mnemonic, len(group), from_integer)
            continue
        lines: dict[Span, list[Instruction]] = {}
        for operation in computing:
            lines.setdefault(frames(operation)[0], []).append(operation)
        inside = {place: rest for place, rest in lines.items() if not _is_def(place)} or lines
        for place, rest in inside.items():
            yield Double(place, (), rest[0].mnemonic, len(rest), from_integer, rounds=_rounds(place))


def _groups(operations: Sequence[Instruction]) -> list[list[Instruction]]:
    """Instructions that share float64 registers, in the order of their first ones."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    def names(operation: Instruction) -> list[str]:
        return [r.name for r in (*writes(operation), *reads(operation)) if r.type in ("f64", "b64")]

    for operation in operations:
        for name in (touched := names(operation)):
            leader[find(name)] = find(touched[0])
    groups: dict[str, list[Instruction]] = {}
    for n, operation in enumerate(operations):
        touched = names(operation)
        groups.setdefault(find(touched[0]) if touched else f"alone {n}", []).append(operation)
    return list(groups.values())


def _constants_of(frames: Sequence[Span]) -> list[tuple[Span, str]]:
    """The float64 constants of the innermost of these lines that uses any, with their own places."""
    for frame in frames:
        if PurePath(frame.file).suffix in CPP:
            written = cpp_constants(tuple(linecache.getlines(frame.file)), frame.line)
            if written:
                return [(Span(frame.file, line, 1), text) for line, text in written]
            continue
        source = _source(frame.file)
        if source is not None and (found := source.constants(frame.line)):
            return [(Span(frame.file, node.lineno, 1), ast.unparse(node)) for node in found]
    return []


def _is_def(place: Span) -> bool:
    """Whether a line is the ``def`` of a function, or one of its decorators."""
    source = _source(place.file)
    function = source.function(place.line) if source is not None else None
    return function is not None and place.line < function.body[0].lineno


def _rounds(place: Span) -> bool:
    """Whether the statement at a line of Python calls ``round``."""
    source = _source(place.file) if PurePath(place.file).suffix not in CPP else None
    function = source.function(place.line) if source is not None else None
    statement = _statement(function.body, place.line) if function is not None else None
    return statement is not None and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "round"
        for part in _own_parts(statement)
        for node in ast.walk(part)
    )


def _source(file: str) -> _Source | None:
    return _parsed("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> _Source | None:
    try:
        return _Source(ast.parse(text)) if text else None
    except SyntaxError:  # not a Python file, or one that has changed since it was compiled
        return None


CPP = frozenset({".cu", ".cuh", ".h", ".hpp", ".hip", ".inl"})
"""Suffixes of files in CUDA C++."""

_LITERAL = re.compile(r"(?<![\w.])((?:\d[\d']*\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.])")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|//.*|/\*.*?\*/')
_NAME = re.compile(r"[A-Za-z_]\w*")
_NAMED = r"(?:#\s*define\s+{name}\s|\b(?:double|auto)\s+{name}\s*[={{(]|\b{name}\s*=[^=])"


def cpp_constants(lines: Sequence[str], line: int) -> list[tuple[int, str]]:
    """The literals of type double in a line of CUDA C++, or else in the definitions of its names, with their
    lines."""
    if not 1 <= line <= len(lines):
        return []
    bare = _QUOTED.sub(" ", lines[line - 1])
    here = [(line, found[1]) for found in _LITERAL.finditer(bare)]
    if here:
        return here
    found = []
    for name in dict.fromkeys(_NAME.findall(bare)):
        defines = re.compile(_NAMED.format(name=name))
        for number, text in enumerate(lines, 1):
            other = _QUOTED.sub(" ", text)
            if number != line and defines.search(other):
                found += [(number, literal[1]) for literal in _LITERAL.finditer(other)]
    return found


class _Source:
    """The statements of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def function(self, line: int) -> ast.FunctionDef | None:
        """The innermost function that contains a line, including its decorators."""
        found = None
        for node in ast.walk(self._tree):  # breadth first: inner ones come later
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first <= line <= (node.end_lineno or node.lineno):
                    found = node
        return found

    def constants(self, line: int) -> list[ast.expr]:
        """The float64 constants in the statement at a line, or in the assignments of the names that it reads."""
        function = self.function(line)
        if function is None or line < function.body[0].lineno:
            return []
        return self._of_statement(_statement(function.body, line), function, set())

    def _of_statement(
        self, statement: ast.stmt | None, function: ast.FunctionDef, seen: set[str]
    ) -> list[ast.expr]:
        parts = list(_own_parts(statement)) if statement is not None else []
        found = [node for part in parts for node in _wide(part)]
        if found:
            return found
        names = {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)} - seen
        seen |= names
        arguments = function.args
        formal = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        for name in sorted(names):
            local = [s for s in ast.walk(function) if _assigns(s, name)]
            outer = [s for s in self._tree.body if _assigns(s, name)] if not local and name not in formal else []
            for assignment in (*local, *outer):
                assert isinstance(assignment, ast.stmt)
                if assignment is not statement:
                    found += self._of_statement(assignment, function, seen)
        return found


def _statement(body: Sequence[ast.stmt], line: int) -> ast.stmt | None:
    """The innermost statement that contains a line."""
    for statement in body:
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            for name in ("body", "orelse", "finalbody"):
                inner = _statement(getattr(statement, name, []), line)
                if inner is not None:
                    return inner
            return statement
    return None


def _own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement; of a loop or a condition, those of its head."""
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "finalbody", "handlers", "decorator_list"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield part


def _assigns(node: ast.AST, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    is_assignment = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
    return is_assignment and any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _wide(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of an expression that are float64 by themselves."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _WIDE:
            yield node
            return
        if _NARROW.fullmatch(name):
            return
    if isinstance(node, ast.Subscript):
        yield from _wide(node.value)
        return
    if (isinstance(node, ast.Constant) and isinstance(node.value, float)) or (
        isinstance(node, ast.Attribute) and node.attr in _MATH and getattr(node.value, "id", "") in ("math", "np")
    ):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _wide(child)
