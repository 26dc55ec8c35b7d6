"""The state that the readers of all sections of a spec share: the faults and names so far, and how to read
expressions.

Parts of a spec that the JSON Schema has refused are skipped without a message, so that a mistake is reported once:
a method that gets a node of the wrong form returns None and reports nothing.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import DTYPES, DType, Expression, Fault, FunctionRef, Span, TypeVariable
from kcheck.nearest import did_you_mean
from kcheck.specfile.given import given_function
from kcheck.specfile.paths import PathRefused, file_in_root, shown
from kcheck.specfile.pythonfile import PythonDefinition, parse_python
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import (
    SIZEOF,
    ExpressionError,
    FunctionCall,
    Logical,
    Name,
    Node,
    Relation,
    Unary,
    check_scalar,
    evaluate,
    evaluate_size,
    fractional,
    name_nodes,
    names,
    parse,
    shorten,
)
from kcheck.symbolic.ast import children

Kind: TypeAlias = Literal["dim", "param", "input", "output", "constant"]
Check: TypeAlias = Literal["size", "condition", "number"]

_RESERVED = frozenset({"true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Defined:
    """A name that a Python file defines, with its definition if the text shows it."""

    definition: PythonDefinition | None


class Reader:
    """One spec while it is read.

    Attributes:
        root: the project root, absolute.
        file: the spec's name in messages.
        faults: those found so far.
        kinds: the kind of every name in the namespace of dims, params and arrays, even if its declaration is
            invalid.
        variables: the type variables; None for one whose declaration is invalid.
        withheld: names that expressions cannot use although the kernel has them, and why.
        given: the functions of a spec that is built in Python, by the text that represents each in the tree;
            and files outside the project, by the text of their path.
    """

    def __init__(
        self, root: Path, file: str, top: YamlMap, given: Mapping[str, Callable[..., Any] | Path] | None = None
    ) -> None:
        self.root = root
        self.file = file
        self.top = top
        self.faults: list[Fault] = []
        self.kinds: dict[str, Kind] = {}
        self.variables: dict[str, TypeVariable | None] = {}
        self.withheld: dict[str, str] = {}
        self.given: Mapping[str, Callable[..., Any] | Path] = given or {}
        self._places: dict[str, Span] = {}

    def fault(self, span: Span, what: str, fix: str = "") -> None:
        self.faults.append(Fault(span, what, fix))

    # Access to nodes, which may have any form.

    def get(self, node: YamlNode | None, key: str) -> YamlNode | None:
        return node.entries[key].value if isinstance(node, YamlMap) and key in node.entries else None

    def entries(self, node: YamlNode | None, most: int = 64) -> Iterator[YamlEntry]:
        """The entries of a mapping; none if it has more than ``most``, which the schema refuses."""
        if isinstance(node, YamlMap) and len(node.entries) <= most:
            yield from node.entries.values()

    def items(self, node: YamlNode | None, most: int = 1024) -> tuple[YamlNode, ...]:
        return node.items if isinstance(node, YamlList) and len(node.items) <= most else ()

    def text(self, node: YamlNode | None) -> str | None:
        return node.value if isinstance(node, YamlScalar) and isinstance(node.value, str) else None

    def integer(self, node: YamlNode | None) -> int | None:
        if isinstance(node, YamlScalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        return None

    def flag(self, node: YamlNode | None) -> bool | None:
        return node.value if isinstance(node, YamlScalar) and isinstance(node.value, bool) else None

    def number(self, node: YamlNode | None) -> int | float | None:
        if isinstance(node, YamlScalar) and isinstance(node.value, float):
            return node.value
        return self.integer(node)

    # Names.

    def declare(self, entry: YamlEntry, kind: Kind) -> bool:
        """Enter a name into the namespace; False, after a fault, if it is taken or not a valid name."""
        name = entry.key
        if not name.isidentifier() or not name.isascii() or len(name) > 64:
            return False
        if keyword.iskeyword(name) or name in _RESERVED:
            self.fault(entry.span, f"{name!r} cannot be a name: it is reserved in Python or YAML", "rename it")
            return False
        if name in self.kinds:
            first = self._places[name]
            where = f"on line {first.line}" if first.file == entry.span.file else f"in {first.file}:{first.line}"
            what = f"the name {name!r} is already used by the {self.kinds[name]} {where}"
            fix = "dims, params and arrays share one namespace: rename one of them"
            if (kind, self.kinds[name]) == ("output", "input"):
                fix = f"to compute it in place, rename the output and add `alias: {name}` to it"
            self.fault(entry.span, what, fix)
            return False
        self.kinds[name] = kind
        self._places[name] = entry.span
        return True

    def named(self, *kinds: Kind) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind in kinds]

    def reference(self, node: YamlNode | None, kinds: tuple[Kind, ...], noun: str, where: str) -> str | None:
        """A name that must be declared as one of these kinds; None, after a fault, if it is not."""
        name = self.text(node)
        if name is None or node is None or not name.isidentifier():
            return None
        if self.kinds.get(name) in kinds:
            return name
        self.unknown(node.span, name, kinds, noun, where)
        return None

    def unknown(self, span: Span, name: str, kinds: tuple[Kind, ...], noun: str, where: str) -> None:
        """Report a name that is not declared as one of these kinds."""
        known = self.named(*kinds)
        if name in self.withheld and name not in self.kinds:
            what = f"{where} cannot use {name!r}: {self.withheld[name]}"
            self.fault(span, what, f"write what it computes, from {', '.join(known[:20])}" if known else "")
            return
        if name in self.kinds:
            article = "an" if self.kinds[name][0] in "aeio" else "a"
            what = f"{name!r} in {where} is {article} {self.kinds[name]}, not {_article(noun)}"
        else:
            what = f"unknown {noun} {shorten(name)!r} in {where}"
        fix = did_you_mean(name, known) or (
            f"available: {', '.join(known[:20])}" if known else f"declare {name!r}"
        )
        self.fault(span, what, fix)

    # Dtypes.

    def dtype(self, node: YamlNode | None, where: str) -> str | None:
        """A dtype or a type variable, by name."""
        name = self.text(node)
        if name is None or node is None:
            return None
        if name in DTYPES or name in self.variables:
            return name
        known = [*self.variables, *DTYPES]
        fix = did_you_mean(name, known) or f"available: {', '.join(known)}"
        self.fault(node.span, f"unknown dtype {shorten(name)!r} in {where}", fix)
        return None

    def concrete(self, dtype: str | None) -> tuple[DType, ...]:
        """The dtypes that a dtype or type variable stands for; empty if its declaration is invalid."""
        if dtype is None:
            return ()
        if dtype in DTYPES:
            return (DTYPES[dtype],)
        variable = self.variables.get(dtype)
        return tuple(DTYPES[choice] for choice in variable.choices) if variable is not None else ()

    # Expressions.

    def expression(
        self,
        node: YamlNode | None,
        kinds: tuple[Kind, ...],
        where: str,
        check: Check = "size",
        *,
        arrays: bool = False,
    ) -> Expression | None:
        """An expression that may use names of some kinds; None, after a fault, if it is invalid.

        Args:
            where: the part of the spec that contains it, in messages: ``shape [B, N]``.
            check: ``size``: an integer that is not negative; ``condition``: true or false; ``number``: any number.
            arrays: whether it is an invariant, which may use functions of arrays.
        """
        if not isinstance(node, YamlScalar) or isinstance(node.value, bool) or node.value is None:
            return None
        if isinstance(node.value, float) and not math.isfinite(node.value):
            self.fault(node.span, f"{where} must be finite, not {node.text}")
            return None
        text = node.value if isinstance(node.value, str) else str(node.value)
        before = len(self.faults)
        try:
            tree = parse(text, arrays=arrays)
            if not arrays:
                check_scalar(tree)
            self._check_names(node, tree, kinds, where)
            if len(self.faults) == before:
                _check_constants(tree)
                self._check_result(tree, where, check)
        except ExpressionError as error:
            self.fault(_column(node, error.column), f"in {where}: {error.what}", error.fix)
        return Expression(text, node.span) if len(self.faults) == before else None

    def sizes(self, items: Sequence[YamlNode], kinds: tuple[Kind, ...], where: str) -> list[Expression | None]:
        """The expressions in a list. Reports ``[ceildiv(N, 2)]``, which YAML reads as two items, as one fault."""
        torn = _torn(items)
        if torn is not None:
            first, text = torn
            what = f"in {where}: a comma ends a list item in YAML, even inside parentheses"
            self.fault(first.span, what, f'quote it: "{shorten(text)}"')
            return [None]
        return [self.expression(item, kinds, where) for item in items]

    def _check_names(self, node: YamlScalar, tree: Node, kinds: tuple[Kind, ...], where: str) -> None:
        seen: set[str] = set()
        noun = kinds[0] if len(kinds) == 1 else "name"
        for found in name_nodes(tree):
            if found.name.startswith(f"{SIZEOF}("):
                self._check_size_of(node, found, kinds, where)
            elif found.name not in seen and self.kinds.get(found.name) not in kinds:
                self.unknown(_column(node, found.column), found.name, kinds, _noun(kinds, noun), where)
            seen.add(found.name)

    def _check_size_of(self, node: YamlScalar, found: Name, kinds: tuple[Kind, ...], where: str) -> None:
        """Report a ``sizeof(T)`` of an unknown type variable, or where the dtypes of a case are unknown."""
        name, place = found.name[len(SIZEOF) + 1 : -1], _column(node, found.column)
        if name not in self.variables:
            fix = did_you_mean(name, (*self.variables, *DTYPES)) or f"available: {', '.join(self.variables)}"
            self.fault(place, f"sizeof takes a dtype or a type variable, and {shorten(name)!r} is neither", fix)
        elif "constant" not in kinds:  # not a param or a part of the launch
            what = f"{where} cannot use {found.name}: it depends on the dtype of a case, which sizes do not"
            self.fault(place, what, f"use it in launch or in a param: {{dtype: int32, expr: {found.name}}}")

    def _check_result(self, tree: Node, where: str, check: Check) -> None:
        if check == "size":
            division = fractional(tree)
            if division is not None:
                raise ExpressionError(
                    "'/' can give a fraction, but a size is a whole number", division.column, "write '//'"
                )
            if isinstance(tree, (Relation, Logical)) or (isinstance(tree, Unary) and tree.operator == "not"):
                raise ExpressionError("expected a size, found a condition", 1)
            if not names(tree):
                evaluate_size(tree, {})
        elif check == "condition" and not (
            isinstance(tree, (Relation, Logical))
            or (isinstance(tree, Unary) and tree.operator == "not")
            or (isinstance(tree, FunctionCall) and tree.function in ("all", "any"))
        ):
            raise ExpressionError("expected a condition, found a number", 1, "compare it with '<=', '==', ...")

    # Functions.

    def function(self, node: YamlNode | None, role: str) -> tuple[FunctionRef, PythonDefinition | None] | None:
        """A function in a file of the project, found without importing it,
        and its definition if the text shows it."""
        text = self.text(node)
        if text is None or node is None:
            return None
        given = self.given.get(text)
        if given is not None and not isinstance(given, Path):
            return given_function(given, self.root, node.span)
        path, separator, name = text.rpartition(":")
        if not separator or not path.endswith(".py") or not name.isidentifier() or ":" in path:
            return None
        target = self.project_file(node, path, role)
        found = None if target is None else self.definition(node, target, name, role)
        if target is None or found is None:
            return None
        return FunctionRef(self.relative(target, path), name, node.span), found.definition

    def project_file(self, node: YamlNode, path: str, role: str, form: str = "write file.py:name") -> Path | None:
        """A file of the project; None, after a fault, if there is none.
        ``form`` is the fix if the path is a folder."""
        outside = self.given.get(path)
        if isinstance(outside, Path):
            return outside
        try:
            return file_in_root(self.root, path, form)
        except PathRefused as refused:
            self.fault(node.span, f"{role}: {refused.what}", refused.fix)
            return None

    def definition(self, node: YamlNode, target: Path, name: str, role: str) -> Defined | None:
        """A name that a Python file defines. Its definition is None if only a star import can define it."""
        parsed = parse_python(target, shown(target))
        if parsed.fault is not None:
            self.faults.append(parsed.fault)
            return None
        definition = parsed.definitions.get(name)
        if definition is None and not parsed.anything:
            fix = did_you_mean(name, parsed.definitions) or "define it at the top level of the file"
            self.fault(node.span, f"{role}: {shown(target)!r} does not define {shorten(name)!r}", fix)
            return None
        return Defined(definition)

    def relative(self, target: Path, path: str) -> str:
        """A file in the form of ``FunctionRef.path``; ``path`` unchanged if a link leads out of the project."""
        relative = target.parent.resolve().joinpath(target.name)
        root = self.root.resolve()
        return relative.relative_to(root).as_posix() if relative.is_relative_to(root) else path


def _torn(items: Sequence[YamlNode]) -> tuple[YamlScalar, str] | None:
    """The call that YAML has split at its commas because it has no quotes: its first item, and its whole text."""
    for start, first in enumerate(items):
        whole = ""
        for item in items[start:]:
            if not isinstance(item, YamlScalar):
                break
            whole += f", {item.text}" if whole else item.text
            if whole.count("(") <= whole.count(")"):
                break
        else:
            continue
        if isinstance(first, YamlScalar) and whole != first.text and whole.count("(") == whole.count(")"):
            return first, whole
    return None


def _column(node: YamlScalar, column: int) -> Span:
    """The place in the file of a column of an expression."""
    if node.content is None:
        return node.span
    return Span(node.span.file, node.span.line, node.content.column + column - 1)


def _check_constants(tree: Node) -> None:
    """Evaluate the parts without names, so that ``9**9**9`` is reported when the spec is read."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if names(node) or not _is_scalar(node):
            pending.extend(children(node))
        else:
            evaluate(node, {})


def _is_scalar(node: Node) -> bool:
    try:
        check_scalar(node)
    except ExpressionError:
        return False
    return True


def _noun(kinds: tuple[Kind, ...], otherwise: str) -> str:
    return {("dim",): "dim", ("dim", "param"): "dim or param"}.get(kinds, otherwise)


def _article(noun: str) -> str:
    return noun if noun.startswith(("dims", "arrays")) else f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
