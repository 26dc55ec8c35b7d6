"""A Triton kernel as the draft reads kernels: its loads and stores as subscripts, its programs as blocks.

``tl.load(x + row * N + column, mask=column < N)`` becomes ``x[row * N + column]``, after ``column < N``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence

from kcheck.draft.names import expanded, single_assignments

_AXES = "xyz"
_LANES = "lanes(cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z)"
_ATOMIC = "atomic_"
_UNCHANGED = ("multiple_of", "max_contiguous", "expand_dims", "broadcast_to", "cast", "to", "assume")


def as_blocks(function: ast.FunctionDef, pointers: Sequence[str]) -> ast.FunctionDef:
    """A copy of a Triton kernel in which each access to memory is a subscript of a parameter.

    Args:
        pointers: the parameters that are pointers.
    """
    done = copy.deepcopy(function)
    made = {name: value for name, value in _places(done).items() if _bases(value, _places(done)) & {*pointers}}
    done.body = _Statements(made, pointers).block(done.body)
    return ast.fix_missing_locations(done)


def pointers_of(function: ast.FunctionDef, arguments: Sequence[str]) -> list[str]:
    """The parameters to which indexes are added where memory is accessed."""
    places = _places(function)
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and _is_access(node):
            found |= _bases(node.args[0], places)
    return [name for name in arguments if name in found]


def _bases(node: ast.expr, places: Mapping[str, ast.expr]) -> set[str]:
    """The names of which an expression is the sum."""
    return {each.id for each in _sum(expanded(node, places)) if isinstance(each, ast.Name)}


def _places(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """By local name, its value, if that may be a pointer or an index: nothing is computed from memory in it. One
    that a loop moves has the value with which it starts."""
    start = copy.deepcopy(function)
    for node in ast.walk(start):
        if isinstance(node, ast.For | ast.While):
            node.body = [each for each in node.body if not isinstance(each, ast.AugAssign)] or [ast.Pass()]
    return {
        name: value
        for name, value in single_assignments(start).items()
        if not any(isinstance(node, ast.Call) and _is_access(node) for node in ast.walk(value))
    }


def _is_access(call: ast.Call) -> bool:
    name = _called(call)
    return name in ("load", "store") or name.startswith(_ATOMIC)


def axis_constants(function: ast.FunctionDef, constants: Sequence[str]) -> list[str]:
    """The constants that are sizes of arrays: ``D`` of ``x[row * D + column]``, but not the elements of a program.

    Args:
        function: as :func:`as_blocks` returns it.
    """
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Name) and one.id in constants and "blockIdx" not in ast.unparse(other):
                        found.add(one.id)
    return [name for name in constants if name in found]


def lengths(function: ast.FunctionDef, constants: Sequence[str]) -> dict[str, str]:
    """By constant that covers a whole axis in one program, the size that its index stays below: ``BLOCK`` of
    ``column = tl.arange(0, BLOCK)`` with ``column < N`` is N or more. Not of indexes in loops or of blocks."""
    values = single_assignments(function)
    found: dict[str, str] = {}
    for name, value in values.items():
        match value:
            case ast.Call(args=[ast.Constant(value=0), ast.Name(id=constant)]) if constant in constants:
                for node in ast.walk(function):
                    match node:
                        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Name(id=size)]) if (
                            _plain(left) == name
                        ):
                            found[constant] = size
    stepped = {
        part.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
        for part in ast.walk(node)
        if isinstance(part, ast.Name)
    }
    multiplied = {
        part.id
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        for part in (node.left, node.right)
        if isinstance(part, ast.Name)
    }
    return {constant: size for constant, size in found.items() if constant not in stepped | multiplied}


def _plain(node: ast.expr) -> str:
    """The name in ``column[None, :]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


class _Statements:
    """Rewrites blocks of statements; ``places``: by local name, its value, of which pointers are made."""

    def __init__(self, places: Mapping[str, ast.expr], pointers: Sequence[str]) -> None:
        self._places, self._pointers = places, pointers
        self._moved: dict[str, ast.expr] = {}  # by pointer, what was added to it
        self.masks: list[ast.expr] = []

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block; a mask comes before the statement whose access it guards."""
        done: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse"):
                if inner := getattr(statement, name, None):
                    setattr(statement, name, self.block(inner))
            self.masks = []
            if self._is_pointer(statement):
                continue  # its accesses name the array
            new = self._statement(statement)
            done += [ast.copy_location(ast.Expr(mask), statement) for mask in self.masks]
            done.append(new)
        return done

    def _is_pointer(self, statement: ast.stmt) -> bool:
        """Whether a statement computes a pointer, or moves one."""
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in self._pointers:
                before = self._moved.get(name)
                self._moved[name] = value if before is None else ast.BinOp(before, ast.Add(), value)
                return True
            case ast.AugAssign(target=ast.Name(id=name)):
                return self._of_pointer(statement.target) is not None
            case ast.Assign(targets=[ast.Name()], value=value):
                return (
                    not any(isinstance(node, ast.Call) and _is_access(node) for node in ast.walk(value))
                    and self._of_pointer(value) is not None
                )
        return False

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.Expr(value=ast.Call(args=[place, value, *more]) as call) if _called(call) == "store":
                self._mask(call, more)
                target = self._access(place, ast.Store())
                if target is not None:
                    return ast.copy_location(ast.Assign([target], self._expression(value)), statement)
        for name, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, name, self._expression(value))
        return statement

    def _mask(self, call: ast.Call, more: Sequence[ast.expr]) -> None:
        masks = [keyword.value for keyword in call.keywords if keyword.arg == "mask"] or list(more[:1])
        self.masks += [self._expression(copy.deepcopy(mask)) for mask in masks]

    def _of_pointer(self, place: ast.expr) -> tuple[str, ast.expr | None] | None:
        """The parameter to which an index is added, and the index."""
        terms = _sum(expanded(place, self._places))
        names = [each for each in terms if isinstance(each, ast.Name) and each.id in self._pointers]
        if len(names) != 1:
            return None
        index = self._moved.get(names[0].id)
        for each in terms:
            if each is not names[0]:
                index = each if index is None else ast.BinOp(index, ast.Add(), each)
        return names[0].id, index

    def _access(self, place: ast.expr, context: ast.Load | ast.Store) -> ast.Subscript | None:
        found = self._of_pointer(_unwrapped(place))
        if found is None:
            return None
        name, index = found
        told = ast.Constant(0) if index is None else self._expression(index)
        return ast.copy_location(ast.Subscript(ast.Name(name, ast.Load()), told, context), place)

    def _expression(self, node: ast.expr) -> ast.expr:
        statements = self

        class Translate(ast.NodeTransformer):
            def visit_Call(self, call: ast.Call) -> ast.expr:  # ast's name
                name = _called(call)
                if name == "load" and call.args:
                    statements._mask(call, call.args[1:])
                    found = statements._access(call.args[0], ast.Load())
                    if found is not None:
                        return found
                if name.startswith(_ATOMIC) and len(call.args) > 1:
                    statements._mask(call, call.args[2:])
                    target = statements._access(call.args[0], ast.Load())
                    if target is not None:
                        function = _parsed(f"cuda.atomic.{name.removeprefix(_ATOMIC)}")
                        return ast.Call(
                            function, [target.value, target.slice, *map(self.visit, call.args[1:])], []
                        )
                if name == "program_id":
                    axis = call.args[0] if call.args else call.keywords[0].value if call.keywords else None
                    if isinstance(axis, ast.Constant) and isinstance(axis.value, int) and 0 <= axis.value < 3:
                        return _parsed(f"cuda.blockIdx.{_AXES[axis.value]}")
                if name == "num_programs":
                    return _parsed("cuda.gridDim.x")
                if name == "arange":
                    return _parsed(_LANES)
                inner = _unwrapped(call)
                return self.visit(inner) if inner is not call else self.generic_visit(call)  # type: ignore[return-value]

            def visit_Subscript(self, node: ast.Subscript) -> ast.expr:  # ast's name
                """``column[None, :]`` has the elements of ``column``."""
                return self.visit(node.value)  # type: ignore[no-any-return]

            def visit_Compare(self, node: ast.Compare) -> ast.expr:  # ast's name
                """``k < K - done``: what is left of K."""
                self.generic_visit(node)
                match node:
                    case ast.Compare(
                        ops=[ast.Lt()], comparators=[ast.BinOp(left=ast.Name() as size, op=ast.Sub())]
                    ):
                        node.comparators = [size]
                return node

        return Translate().visit(node)  # type: ignore[no-any-return]


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _unwrapped(node: ast.expr) -> ast.expr:
    """The argument of a call that changes no value: ``row.to(tl.int64)``, ``tl.multiple_of(x, 8)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module)), args=[inner, *_]) if (
            module in ("tl", "language") and _called(node) in _UNCHANGED
        ):
            return _unwrapped(inner)
        case ast.Call(func=ast.Attribute(value=inner)) if _called(node) == "to":
            return _unwrapped(inner)
    return node


def _sum(node: ast.expr) -> list[ast.expr]:
    node = _unwrapped(node)
    if isinstance(node, ast.Subscript):
        return _sum(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_sum(node.left), *_sum(node.right)]
    return [node]
