"""Which arrays a kernel reads and writes, with which indexes, and what bounds those indexes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.draft.names import dotted, expanded, single_assignments

_SIZE_CASTS = ("int", "int32", "int64", "uint32", "uint64", "intp")
_DEEPEST_CALL = 3


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an array parameter."""

    array: str
    axis: int


Node = Axis | str
"""A size that the kernel knows: an axis of an array, or a scalar parameter by name."""


@dataclass(frozen=True, slots=True)
class Subscript:
    """One subscript of an array parameter.

    Attributes:
        keys: for each axis, the index as text in which every loop variable is unique.
        indexes: the same as expressions, with local names replaced by their values.
    """

    array: str
    keys: tuple[str, ...]
    indexes: tuple[ast.expr, ...]
    loads: bool
    stores: bool


@dataclass(slots=True)
class KernelText:
    """What a kernel's source says about its arrays.

    Attributes:
        bounds: by key of an index, and by its text with local names replaced, the size that it stays below.
        names: by size, the local name that the kernel gives it (``N = x.shape[1]``).
        arrays: parameters that are used as arrays.
        least_rank: by array, the least number of axes that it can have.
        integers: names of parameters whose values are used as integers: in an index, a bound, or a range.
        indexing: arrays whose elements are used as indexes, each with the axis that they index, or None if that is
            an axis of a shared or local array.
        passed: arrays that are passed to a function whose source is unknown.
        spans: by key of a loop variable, the array with two neighboring elements that start and stop its range.
        less_one: by key of an index, as in ``bounds``: the axis whose length minus 1 the index stays below.
        lesser: by local name (``n = offsets.size - 1``), the axis whose length minus 1 it is.
    """

    accesses: list[Subscript] = field(default_factory=list)
    bounds: dict[str, Node] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    arrays: dict[str, None] = field(default_factory=dict)
    least_rank: dict[str, int] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)
    indexing: dict[str, Axis | None] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    spans: dict[str, str] = field(default_factory=dict)
    less_one: dict[str, Axis] = field(default_factory=dict)
    lesser: dict[str, Axis] = field(default_factory=dict)

    def join_offsets(self) -> dict[str, Axis]:
        """By array of offsets, the axis that they divide. Also adds bounds: an index that stays below the number
        of offsets minus 1 is bounded by the axis of the offsets."""
        ends: dict[str, Axis] = {}
        for access in self.accesses:
            for place, key in enumerate(access.keys):
                if key in self.spans:
                    ends.setdefault(self.spans[key], Axis(access.array, place))
        for key, axis in self.less_one.items():
            if axis.array in ends:
                self.bounds.setdefault(key, axis)
                for name in (name for name, size in self.lesser.items() if size == axis):
                    self.names.setdefault(axis, name)
        return ends


def find_accesses(
    function: ast.FunctionDef, parameters: Sequence[str], functions: Mapping[str, ast.FunctionDef]
) -> KernelText:
    """Analyze a kernel's source.

    Args:
        parameters: its parameters, in order.
        functions: the functions of its file by name, into which arrays are followed.
    """
    found = KernelText()
    _Walk(function, {name: (name, ()) for name in parameters}, functions, found, "", 0).run()
    return found


_Base = tuple[str, tuple[ast.expr, ...]]


class _Walk(ast.NodeVisitor):
    """Walks one function; ``aliases`` maps its names to a parameter of the kernel and the indexes applied so
    far."""

    def __init__(
        self,
        function: ast.FunctionDef,
        aliases: Mapping[str, _Base],
        functions: Mapping[str, ast.FunctionDef],
        found: KernelText,
        prefix: str,
        depth: int,
    ) -> None:
        self.function = function
        self.aliases = dict(aliases)
        self.functions = functions
        self.found = found
        self.prefix = prefix
        self.depth = depth
        self.values = single_assignments(function)
        self.loops: dict[str, str] = {}
        self.current: dict[str, ast.expr] = {}  # names that are assigned more than once: the latest value
        self.subscripted = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name)
        }

    def run(self) -> None:
        for name, value in self.values.items():
            node = self.node(value)
            if node is not None and not self.depth:
                self.found.names.setdefault(node, name)
            less_one = self.less_one(value)
            if less_one is not None:
                self.found.lesser.setdefault(name, less_one)
            base = self.base(value)
            if base is not None and (isinstance(value, ast.Name) or name in self.subscripted):
                self.aliases[name] = base
        for statement in self.function.body:
            self.visit(statement)

    # Arrays.

    def base(self, node: ast.expr) -> _Base | None:
        """The parameter that an expression is an element or a view of, and the indexes applied to it."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Subscript):
            inner = self.base(node.value)
            if inner is not None:
                return inner[0], (*inner[1], *self.elements(node.slice))
        return None

    def elements(self, index: ast.expr) -> tuple[ast.expr, ...]:
        """The indexes of a subscript, one for each axis."""
        if isinstance(index, ast.Name) and index.id in self.values:
            value = self.values[index.id]
            if isinstance(value, ast.Tuple):
                return tuple(value.elts)
            index = value if _grid_rank(value) > 1 else index
        rank = _grid_rank(index)
        if rank > 1:
            return tuple(ast.Subscript(index, ast.Constant(axis), ast.Load()) for axis in range(rank))
        return tuple(index.elts) if isinstance(index, ast.Tuple) else (index,)

    def access(self, base: _Base, *, loads: bool, stores: bool) -> None:
        array, indexes = base
        self.found.arrays.setdefault(array)
        whole = tuple(self.whole(index) for index in indexes)
        keys = tuple(self.key(index) for index in indexes)
        self.found.accesses.append(Subscript(array, keys, whole, loads, stores))
        for place, index in enumerate(indexes):
            self.used_as_integer(index, Axis(array, place))

    def whole(self, node: ast.expr) -> ast.expr:
        """An expression with local names replaced by their values at this point."""
        return expanded(node, {**self.values, **self.current})

    def used_as_integer(self, node: ast.expr, axis: Axis | None = None) -> None:
        """Note that parameters in an index are integers, and that arrays whose elements are in it hold
        integers."""
        for part in _unconverted(self.whole(node)):
            if isinstance(part, ast.Name) and part.id in self.aliases:
                self.found.integers.add(self.aliases[part.id][0])
            inner = self.base(part) if isinstance(part, ast.Subscript) else None
            if inner is not None and (axis is None or axis.array != inner[0]):
                self.found.indexing[inner[0]] = self.found.indexing.get(inner[0]) or axis

    def key(self, node: ast.expr) -> str:
        """The text of an index, in which the variables of different loops have different names."""

        class Rename(ast.NodeTransformer):
            def visit_Name(inner, name: ast.Name) -> ast.Name:  # noqa: N805  # ast's name; self is the walk's
                return ast.Name(self.loops.get(name.id, name.id), name.ctx)

        return self.prefix + ast.unparse(Rename().visit(ast.parse(ast.unparse(node), mode="eval").body))

    # Sizes.

    def node(self, node: ast.expr) -> Node | None:
        """The size that an expression stands for: a scalar parameter, or the length of an axis."""
        match node:
            case ast.Name(id=name):
                if name in self.values:
                    return self.node(self.values[name])
                base = self.aliases.get(name)
                return base[0] if base is not None and not base[1] else None
            case ast.Subscript(
                value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=int() as axis)
            ):
                base = self.base(array)
                return None if base is None or axis < 0 else self.axis(base, axis)
            case ast.Attribute(value=array, attr="size"):
                base = self.base(array)
                return None if base is None else self.axis(base, 0)
            case ast.Call(func=ast.Name(id="len"), args=[array]):
                base = self.base(array)
                return None if base is None else self.axis(base, 0)
            case ast.Call(func=function, args=[inner]) if dotted(function).split(".")[-1] in _SIZE_CASTS:
                return self.node(inner)
        return None

    def less_one(self, node: ast.expr) -> Axis | None:
        """The axis whose length minus 1 an expression is; None for any other expression."""
        match node:
            case ast.Name(id=name) if name in self.values:
                return self.less_one(self.values[name])
            case ast.BinOp(left=left, op=ast.Sub(), right=ast.Constant(value=1)):
                size = self.node(left)
                return size if isinstance(size, Axis) else None
        return None

    def offsets(self, start: ast.expr, stop: ast.expr) -> str:
        """The array if ``start`` begins at one of its elements and ``stop`` is the next one; otherwise empty."""
        last = self.base(self.whole(stop))
        if last is None or len(last[1]) != 1:
            return ""
        for part in ast.walk(self.whole(start)):
            first = self.base(part) if isinstance(part, ast.Subscript) else None
            if first is not None and first[0] == last[0] and len(first[1]) == 1:
                (begin,), (end,) = first[1], last[1]
                if f"{ast.unparse(self.whole(begin))} + 1" == ast.unparse(self.whole(end)):
                    return last[0]
        return ""

    def axis(self, base: _Base, axis: int) -> Axis:
        array, taken = base
        self.found.arrays.setdefault(array)
        place = len(taken) + axis
        self.found.least_rank[array] = max(self.found.least_rank.get(array, 0), place + 1)
        return Axis(array, place)

    def bound(self, index: ast.expr, size: ast.expr) -> None:
        node = self.node(size)
        less_one = self.less_one(size)
        if less_one is not None and not isinstance(index, ast.Constant):
            self.found.less_one.setdefault(self.key(index), less_one)
        if node is not None and not isinstance(index, ast.Constant):
            self.found.bounds.setdefault(self.key(index), node)
            whole = ast.unparse(self.whole(index))
            if whole != ast.unparse(index):
                self.found.bounds.setdefault(whole, node)

    # Statements and expressions.

    def visit_For(self, node: ast.For) -> None:  # ast's name
        before, current = dict(self.loops), dict(self.current)
        if isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call):
            self.loops[node.target.id] = f"{node.target.id}_{node.lineno}"
            arguments = node.iter.args
            if dotted(node.iter.func) == "range" and arguments:
                self.bound(node.target, arguments[0] if len(arguments) == 1 else arguments[1])
                for argument in arguments:
                    self.used_as_integer(argument)
                start = self.whole(arguments[0])
                if len(arguments) > 1 and (array := self.offsets(start, arguments[1])):
                    self.found.spans[self.key(node.target)] = array
                if len(arguments) > 1 and re.search(r"blockIdx|\bgrid\(", ast.unparse(start)):
                    self.current[node.target.id] = start  # a grid-stride loop: its first index
        self.generic_visit(node)
        self.loops, self.current = before, current

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            if isinstance(operator, ast.Lt | ast.GtE):  # i < n; if i >= n: return
                self.bound(left, right)
            elif isinstance(operator, ast.Gt | ast.LtE):
                self.bound(right, left)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        base = self.base(node.target)
        if base is not None and base[1]:
            self.access(base, loads=True, stores=True)
            self.visit(node.value)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        base = self.base(node)
        if base is None:
            for index in self.elements(node.slice):
                self.used_as_integer(index)
            self.generic_visit(node)
            return
        self.access(base, loads=isinstance(node.ctx, ast.Load), stores=isinstance(node.ctx, ast.Store))
        for index in base[1]:
            self.visit(index)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base = self.base(node.value)
        if base is not None and node.attr in ("shape", "size", "ndim", "strides", "dtype", "T", "flat"):
            self.found.arrays.setdefault(base[0])
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        is_alias = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and self.base(node.value)
        if is_alias and node.targets[0].id in self.aliases:  # type: ignore[attr-defined]
            return  # `row = x[i]`, a view whose elements are used later: not a load
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            self._unpacked(node.targets[0], node.value)
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id not in self.values and target.id not in self.aliases:
                self._reassigned(target.id, node)

    def _reassigned(self, name: str, node: ast.Assign) -> None:
        """From here on, the name stands for a different index."""
        self.loops[name] = f"{name}_{node.lineno}"
        if any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node.value)):
            self.current.pop(name, None)
        else:
            self.current[name] = self.whole(node.value)

    def _unpacked(self, target: ast.expr, shape: ast.Attribute) -> None:
        """``M, N = x.shape`` shows how many axes x has."""
        base = self.base(shape.value)
        if base is not None and isinstance(target, ast.Tuple):
            self.axis(base, len(target.elts) - 1)

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        rest = list(node.args)
        if ".atomic." in f".{name}" and len(rest) >= 2:
            base = self.base(rest[0])
            if base is not None:
                self.access((base[0], (*base[1], *self.elements(rest[1]))), loads=True, stores=True)
                rest = rest[1:]
            else:  # a shared or local array
                for index in self.elements(rest[1]):
                    self.used_as_integer(index)
        elif name in self.functions and self.depth < _DEEPEST_CALL:
            self._follow(self.functions[name], node.args)
            rest = [argument for argument in rest if self.base(argument) is None]
        elif name != "len":
            for argument in rest:
                base = self.base(argument)
                if base is not None and not base[1] and base[0] in self.found.arrays:
                    self.found.passed.add(base[0])
        for argument in (*rest, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)

    def _follow(self, function: ast.FunctionDef, arguments: Sequence[ast.expr]) -> None:
        """Walk a device function, whose parameters are aliases of the arguments."""
        aliases: dict[str, _Base] = {}
        for parameter, argument in zip(function.args.args, arguments, strict=False):
            base = self.base(argument)
            if base is not None:
                aliases[parameter.arg] = base
        prefix = f"{self.prefix}{function.name}:"
        _Walk(function, aliases, self.functions, self.found, prefix, self.depth + 1).run()


def _unconverted(node: ast.expr) -> Iterator[ast.AST]:
    """The parts of an index, without the arguments of calls such as ``int(x[i] * 10)``, which may be floats."""
    yield node
    if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] in ("min", "max"):
        for part in ast.iter_child_nodes(node):
            yield from _unconverted(part)  # type: ignore[arg-type]


def _grid_rank(node: ast.expr) -> int:
    """2 for ``cuda.grid(2)``; 0 for any other expression."""
    match node:
        case ast.Call(func=function, args=[ast.Constant(value=int() as rank)]) if dotted(function).endswith(
            "grid"
        ):
            return rank
    return 0
