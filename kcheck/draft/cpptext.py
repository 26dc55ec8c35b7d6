"""A CUDA C++ kernel as the draft reads kernels: the syntax tree of a function in Python.

This reads a subset of C++: declarations, assignments, conditions, loops, subscripts and calls. It leaves out the
statements that it does not know, so that the draft guesses.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from kcheck.dataclass import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][\da-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlLhH]*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<text>\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*')"
    r"|(?P<sign><<<|>>>|<<=|>>=|\+\+|--|->|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|<<|>>|[-+*/%<>=!&|^~?:;,.(){}\[\]#@$`\\]))"
)
_BINARY: Mapping[str, tuple[int, ast.operator | ast.cmpop | ast.boolop]] = {
    "||": (1, ast.Or()),
    "&&": (2, ast.And()),
    "|": (3, ast.BitOr()),
    "^": (4, ast.BitXor()),
    "&": (5, ast.BitAnd()),
    "==": (6, ast.Eq()),
    "!=": (6, ast.NotEq()),
    "<": (7, ast.Lt()),
    ">": (7, ast.Gt()),
    "<=": (7, ast.LtE()),
    ">=": (7, ast.GtE()),
    "<<": (8, ast.LShift()),
    ">>": (8, ast.RShift()),
    "+": (9, ast.Add()),
    "-": (9, ast.Sub()),
    "*": (10, ast.Mult()),
    "/": (10, ast.FloorDiv()),
    "%": (10, ast.Mod()),
}
_UPDATES = {
    "+=": ast.Add(),
    "-=": ast.Sub(),
    "*=": ast.Mult(),
    "/=": ast.Div(),
    "%=": ast.Mod(),
    "&=": ast.BitAnd(),
}
_QUALIFIERS = frozenset(
    [
        "const",
        "constexpr",
        "volatile",
        "static",
        "extern",
        "register",
        "inline",
        "__restrict__",
        "__restrict",
        "__shared__",
        "alignas",
        "__align__",
        "typename",
        "struct",
        "unsigned",
        "signed",
        "restrict",
    ]
)
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "long long": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_WORDS = frozenset(word for name in _DTYPES for word in name.split()) | {"auto", "void", "dim3"}
_CASTS = ("static_cast", "const_cast", "reinterpret_cast")
_ATOMICS = {"atomicAdd": "add", "atomicMax": "max", "atomicMin": "min", "atomicExch": "exch", "atomicCAS": "cas"}
_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


class _Unread(Exception):
    """A text that this reader does not know."""


_OF_BOTH = frozenset(("if", "else", "for", "while", "return", "break", "continue"))


def python_name(name: str) -> str:
    """A name that Python's own words do not have: ``in_`` for ``in``."""
    return f"{name}_" if keyword.iskeyword(name) and name not in _OF_BOTH else name


def dtype_of(text: str) -> tuple[str, int]:
    """The dtype of a parameter, empty for the type of a template or one that is not known, and 1 for a pointer."""
    rank = int("*" in text or "[" in text)
    words = [word.rpartition("::")[2] for word in re.findall(r"[A-Za-z_][\w:]*", text)]
    kind = " ".join(word for word in words[:-1] if word not in _QUALIFIERS - {"unsigned", "signed"})
    return _DTYPES.get(kind.removesuffix(" int") if kind.startswith(("long", "short")) else kind, ""), rank


@dataclass(slots=True)
class CppReader:
    """Reads the statements of a text.

    Args:
        pointers: the parameters that are pointers.

    Attributes:
        types: names of types that a template has.
        moved: by pointer, what was added to it.
        aliases: by local pointer, the parameter and the index at which it begins.
    """

    text: str
    pointers: Sequence[str]
    types: frozenset[str] = frozenset()
    moved: dict[str, ast.expr] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ast.expr]] = field(default_factory=dict)
    _tokens: list[tuple[str, str, int]] = field(default_factory=list)
    _at: int = 0

    def statements(self, line: int) -> list[ast.stmt]:
        """The statements of the text, which begins at a line of its file."""
        place = 0
        while (match := _TOKEN.match(self.text, place)) is not None:
            kind = match.lastgroup or ""
            text = python_name(match[kind]) if kind == "name" else match[kind]
            self._tokens.append((kind, text, line + self.text.count("\n", 0, match.start(kind))))
            place = match.end()
        found: list[ast.stmt] = []
        while self._at < len(self._tokens):
            found += self._statement()
        return found

    # Tokens.

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place][1] if place < len(self._tokens) else ""

    def _kind(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place][0] if place < len(self._tokens) else ""

    def _next(self) -> str:
        text = self._peek()
        self._at += 1
        return text

    def _take(self, text: str) -> None:
        if self._next() != text:
            raise _Unread

    @property
    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)][2]

    def _skip(self) -> None:
        """Leave out the rest of a statement."""
        depth = 0
        while self._at < len(self._tokens):
            token = self._next()
            depth += (token in "({[") - (token in ")}]")
            if depth <= 0 and token in (";", "}"):
                return

    # Statements.

    def _statement(self) -> list[ast.stmt]:
        begin, line = self._at, self._line
        try:
            found = self._read()
        except _Unread:
            self._at = begin
            self._skip()
            found = []
        for statement in found:
            for node in ast.walk(statement):
                if not hasattr(node, "lineno"):
                    node.lineno, node.col_offset = line, 0  # type: ignore[attr-defined]
        return found

    def _block(self) -> list[ast.stmt]:
        return self._statement() or [ast.Pass()]

    def _read(self) -> list[ast.stmt]:
        token = self._peek()
        if token == "{":
            self._next()
            found: list[ast.stmt] = []
            while self._peek() not in ("}", ""):
                found += self._statement()
            self._next()
            return found
        if token in (";", "}"):
            self._next()
            return []
        if token == "#":  # a line of the preprocessor
            line = self._line
            while self._at < len(self._tokens) and self._line == line:
                self._next()
            return []
        if token == "if":
            self._next()
            if self._peek() == "constexpr":
                self._next()
            test = self._parenthesized()
            body = self._block()
            orelse: list[ast.stmt] = []
            if self._peek() == "else":
                self._next()
                orelse = self._block()
            return [ast.If(test, body, orelse)]
        if token == "for":
            return self._for()
        if token == "while":
            self._next()
            return [ast.While(self._parenthesized(), self._block(), [])]
        if token == "do":
            self._next()
            body = self._block()
            self._take("while")
            return [*body, ast.Expr(self._parenthesized())]
        if token in ("return", "break", "continue"):
            self._next()
            value = self._expression() if self._peek() != ";" else None
            self._take(";")
            return (
                [ast.Return(value)] if token == "return" else [ast.Break() if token == "break" else ast.Continue()]
            )
        found = self._simple()
        self._take(";")
        return found

    def _parenthesized(self) -> ast.expr:
        self._take("(")
        inner = self._expression()
        self._take(")")
        return inner

    def _for(self) -> list[ast.stmt]:
        self._take("for")
        self._take("(")
        first = self._simple() if self._peek() != ";" else []
        self._take(";")
        test = self._expression() if self._peek() != ";" else ast.Constant(True)
        self._take(";")
        step = self._simple() if self._peek() != ")" else []
        self._take(")")
        body = self._block()
        match first, test:
            case (
                [ast.Assign(targets=[ast.Name(id=name)], value=start)],
                ast.Compare(left=ast.Name(id=tested), ops=[ast.Lt() | ast.LtE()], comparators=[stop]),
            ) if name == tested:
                by: ast.expr = ast.Constant(1)
                if step and isinstance(step[0], ast.AugAssign):
                    by = step[0].value
                loop = ast.Call(ast.Name("range", ast.Load()), [start, stop, by], [])
                return [ast.For(ast.Name(name, ast.Store()), loop, body, [])]
        return [*first, ast.While(test, [*body, *step], [])]

    def _simple(self) -> list[ast.stmt]:
        """A declaration, or expressions with commas between them, without the semicolon."""
        if self._is_declaration():
            return self._declaration()
        found = self._assignment()
        while self._peek() == ",":
            self._next()
            found += self._assignment()
        return found

    def _is_type(self, ahead: int = 0) -> bool:
        return self._kind(ahead) == "name" and (
            self._peek(ahead) in _QUALIFIERS | _WORDS | self.types
            or self._peek(ahead).rpartition("::")[2] in _WORDS
        )

    def _is_declaration(self) -> bool:
        if self._is_type():
            return self._peek(1) != "("
        if self._kind() != "name":
            return False
        ahead = 1
        if self._peek(1) == "<":  # a template's type
            while self._peek(ahead) not in (">", ";", "", "("):
                ahead += 1
            ahead += 1
        while self._peek(ahead) in ("*", "&", "const", "__restrict__"):
            ahead += 1
        is_followed = self._kind(ahead) == "name" and self._peek(ahead + 1) in ("=", ";", "[", "(", "{", ",")
        return is_followed and (ahead > 1 or self._kind(1) == "name")

    def _declaration(self) -> list[ast.stmt]:
        is_shared = is_pointer = False
        kind = "float32"
        while self._is_type() or (self._kind() == "name" and (self._kind(1) == "name" or self._peek(1) in "*&<")):
            word = self._next()
            is_shared |= word == "__shared__"
            kind = _DTYPES.get(word, kind)
            if word in ("alignas", "__align__") and self._peek() == "(":
                self._arguments()
            if self._peek() == "<":
                while self._next() not in (">", ""):
                    pass
            while self._peek() in ("*", "&", "&&"):
                is_pointer |= self._next() == "*"
        found: list[ast.stmt] = []
        while True:
            name = self._next()
            if not name.isidentifier():
                raise _Unread
            lengths: list[ast.expr] = []
            while self._peek() == "[":
                self._next()
                lengths.append(self._expression() if self._peek() != "]" else ast.Constant(0))
                self._take("]")
            value: ast.expr | None = None
            if self._peek() == "=":
                self._next()
                if self._peek() == "{":
                    self._braces()
                else:
                    value = self._expression()
            elif self._peek() == "(":
                value = next(iter(self._arguments()), None)
            elif self._peek() == "{":
                self._braces()
            if lengths:
                memory = "shared" if is_shared else "local"
                shape = lengths[0] if len(lengths) == 1 else ast.Tuple(lengths, ast.Load())
                function = ast.parse(f"cuda.{memory}.array", mode="eval").body
                value = ast.Call(function, [shape, ast.Name(kind, ast.Load())], [])
            if value is not None and (is_pointer or isinstance(value, ast.Name)) and self._alias(name, value):
                value = None
            if value is not None:
                found.append(ast.Assign([ast.Name(name, ast.Store())], value))
            while self._peek() in ("*", "&"):
                self._next()
            if self._peek() != ",":
                return found
            self._next()
            while self._peek() in ("*", "&"):
                self._next()

    def _alias(self, name: str, value: ast.expr) -> bool:
        """Note that a local pointer is a parameter, or begins at one of its elements."""
        try:
            start = value if isinstance(value, ast.Subscript) else self._element(value, ast.Constant(0))
        except _Unread:
            return False
        if (
            isinstance(start, ast.Subscript)
            and isinstance(start.value, ast.Name)
            and start.value.id in self.pointers
        ):
            self.aliases[name] = start.value.id, start.slice
            return True
        return False

    def _braces(self) -> None:
        depth = 0
        while self._at < len(self._tokens):
            token = self._next()
            depth += (token == "{") - (token == "}")
            if depth == 0:
                return

    def _assignment(self) -> list[ast.stmt]:
        if self._peek() in ("++", "--"):
            self._next()
            target = self._unary()
            return [_updated(target, ast.Add(), ast.Constant(1))]
        target = self._expression()
        token = self._peek()
        if token in ("++", "--"):
            self._next()
            return [_updated(target, ast.Add() if token == "++" else ast.Sub(), ast.Constant(1))]
        if token == "=":
            self._next()
            value = self._expression()
            return [ast.Assign([_stored(target)], value)]
        if token in _UPDATES or token in ("|=", "^=", "<<=", ">>="):
            self._next()
            value = self._expression()
            if isinstance(target, ast.Name) and target.id in self.pointers and token == "+=":
                before = self.moved.get(target.id)
                self.moved[target.id] = value if before is None else ast.BinOp(before, ast.Add(), value)
                return []
            return [_updated(target, _UPDATES.get(token, ast.BitOr()), value)]
        return [ast.Expr(target)]

    # Expressions.

    def _expression(self) -> ast.expr:
        test = self._binary(0)
        if self._peek() != "?":
            return test
        self._next()
        body = self._expression()
        self._take(":")
        return ast.IfExp(test, body, self._expression())

    def _binary(self, least: int) -> ast.expr:
        left = self._unary()
        while (known := _BINARY.get(self._peek())) is not None and known[0] > least:
            self._next()
            right = self._binary(known[0])
            left = _joined(left, known[1], right)
        return left

    def _unary(self) -> ast.expr:
        token = self._peek()
        if token in ("-", "+", "~", "!", "*", "&", "++", "--"):
            self._next()
            operand = self._unary()
            if token == "*":
                return self._element(operand, ast.Constant(0))
            if token == "-":
                return ast.UnaryOp(ast.USub(), operand)
            return ast.UnaryOp(ast.Not(), operand) if token == "!" else operand
        if token == "(" and self._is_cast():
            while self._next() != ")":
                pass
            return self._unary()
        return self._postfix(self._primary())

    def _is_cast(self) -> bool:
        ahead = 1
        while self._is_type(ahead) or self._peek(ahead) in ("*", "&"):
            ahead += 1
        return ahead > 1 and self._peek(ahead) == ")" and self._is_type(1)

    def _primary(self) -> ast.expr:
        kind, token = self._kind(), self._next()
        if token == "(":
            inner = self._expression()
            self._take(")")
            return inner
        if kind == "number":
            return _number(token)
        if kind == "text":
            return ast.Constant(token)
        if kind != "name":
            raise _Unread
        if self._peek() == "<" and (token in _CASTS or self._is_template()):
            while self._next() not in (">", ""):
                pass
            if token in _CASTS:
                return self._parenthesized()
        if token in _BUILTINS:
            return ast.Attribute(ast.Name("cuda", ast.Load()), token, ast.Load())
        return ast.Name(token.rpartition("::")[2], ast.Load())

    def _is_template(self) -> bool:
        """Whether ``<`` begins the arguments of a template, which a call follows."""
        ahead = 1
        while self._kind(ahead) in ("name", "number") or self._peek(ahead) in (",", "*"):
            ahead += 1
        return self._peek(ahead) == ">" and self._peek(ahead + 1) == "("

    def _postfix(self, node: ast.expr) -> ast.expr:
        while True:
            token = self._peek()
            if token == "[":
                self._next()
                index = self._expression()
                self._take("]")
                node = self._element(node, index)
            elif token == "(":
                node = self._called(node, self._arguments())
            elif token in (".", "->"):
                self._next()
                node = ast.Attribute(node, self._next(), ast.Load())
            else:
                return node

    def _arguments(self) -> list[ast.expr]:
        self._take("(")
        found = []
        while self._peek() != ")":
            found.append(self._expression())
            if self._peek() == ",":
                self._next()
            elif self._peek() != ")":
                raise _Unread
        self._next()
        return found

    def _called(self, function: ast.expr, arguments: list[ast.expr]) -> ast.expr:
        name = function.id if isinstance(function, ast.Name) else ""
        if (name in _WORDS or name in self.types) and len(arguments) == 1:
            return arguments[0]  # float(x[i])
        if name == "__ldg" and arguments:
            return self._element(arguments[0], ast.Constant(0))
        if name in _ATOMICS and arguments:
            target = self._element(arguments[0], ast.Constant(0))
            if isinstance(target, ast.Subscript):
                call = ast.parse(f"cuda.atomic.{_ATOMICS[name]}", mode="eval").body
                return ast.Call(call, [target.value, target.slice, *arguments[1:]], [])
        return ast.Call(function, arguments, [])

    def _element(self, base: ast.expr, index: ast.expr) -> ast.expr:
        """An element of an array: of what a pointer and an index are the sum."""
        if isinstance(base, ast.Subscript):
            if isinstance(index, ast.Constant) and index.value == 0:  # of &x[i]
                return base
            outer = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            return ast.Subscript(base.value, ast.Tuple([*outer, index], ast.Load()), ast.Load())
        pointer: ast.expr | None = None
        parts = list(_sum(base))
        known = {*self.pointers, *self.aliases}
        named = [part for part in parts if isinstance(part, ast.Name) and part.id in known]
        for part in parts:
            if pointer is None and (part in named or (not named and isinstance(part, ast.Name | ast.Attribute))):
                pointer = part
            else:
                index = part if _is_zero(index) else ast.BinOp(part, ast.Add(), index)
        if pointer is None:
            raise _Unread
        if isinstance(pointer, ast.Name) and pointer.id in self.aliases:
            name, start = self.aliases[pointer.id]
            index = start if _is_zero(index) else index if _is_zero(start) else ast.BinOp(start, ast.Add(), index)
            return ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())
        if isinstance(pointer, ast.Name) and pointer.id in self.moved:
            moved = self.moved[pointer.id]
            index = moved if _is_zero(index) else ast.BinOp(moved, ast.Add(), index)
        return ast.Subscript(pointer, index, ast.Load())


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _sum(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _sum(node.left)
        yield from _sum(node.right)
    else:
        yield node


def _stored(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Subscript):
        return ast.Subscript(node.value, node.slice, ast.Store())
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Store())
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Store())
    raise _Unread


def _updated(target: ast.expr, operator: ast.operator, value: ast.expr) -> ast.stmt:
    return ast.AugAssign(_stored(target), operator, value)  # type: ignore[arg-type]


def _joined(left: ast.expr, operator: ast.operator | ast.cmpop | ast.boolop, right: ast.expr) -> ast.expr:
    if isinstance(operator, ast.cmpop):
        return ast.Compare(left, [operator], [right])
    if isinstance(operator, ast.boolop):
        return ast.BoolOp(operator, [left, right])
    return ast.BinOp(left, operator, right)


def _number(text: str) -> ast.expr:
    if text[:2] in ("0x", "0X"):
        return ast.Constant(int(text.rstrip("uUlL"), 16))
    plain = text.rstrip("fFuUlLhH")
    return ast.Constant(int(plain) if plain.isdigit() else float(plain))
