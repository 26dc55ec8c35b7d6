"""The bodies of functions: scopes, registers, labels, instructions, calls.

Source: PTX ISA, "Directives", "Instruction Set". Registers of inner ``{}`` scopes may shadow outer ones; each
declaration gets a unique name here (``p``, then ``p.1``), so the tree needs no scopes.
"""

from __future__ import annotations

from dataclasses import field, replace

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import RESERVED
from kcheck.ptx.syntax import stack, wide
from kcheck.ptx.syntax.ast import (
    Call,
    Function,
    Instruction,
    Label,
    Loc,
    Operand,
    Prototype,
    Register,
    Sink,
    Statement,
    Symbol,
    Variable,
)
from kcheck.ptx.syntax.cursor import Cursor
from kcheck.ptx.syntax.declarations import SPACES, parameters, type_name, variables
from kcheck.ptx.syntax.lexer import describe
from kcheck.ptx.syntax.modifier_order import in_order
from kcheck.ptx.syntax.reserved_shared import OFFSETS, reserved_variable
from kcheck.ptx.syntax.written_out import written_out

_SKIPPED = frozenset({".pragma", ".file", ".noreturn", ".attribute"})


@dataclass(slots=True)
class _Scope:
    """One ``{}``: its declarations, and the place where its statements begin."""

    first: int
    registers: dict[str, Register] = field(default_factory=dict)
    ranges: list[tuple[str, int, str]] = field(default_factory=list)  # prefix, count, type
    variables: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class Body:
    """Reads one function's body; call :meth:`read`."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.statements: list[Statement] = []
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.prototypes: dict[str, Prototype] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.scopes: list[_Scope] = []
        self.stack: stack.AllocaStack | None = None
        self.halves: dict[str, tuple[Register, Register]] = {}
        self.taken: set[str] = set()
        self.loc: Loc | None = None
        self.has_jumps = False  # whether there was a label since the last ``.loc`` with a line
        self.locs: dict[tuple[int, int, int], Loc] = {}
        self.serial = 0
        self.rests: set[int] = set()
        self.rest_begins = False

    # body ::= "{" (directive | label | instruction | body)* "}"
    def read(self, head: Function) -> Function:
        """The function with its body; the current token is its ``{``."""
        cursor = self.cursor
        cursor.expect("{")
        self._open()
        while self.scopes:
            token = cursor.token
            if token.kind == "{":
                cursor.take()
                self._open()
            elif token.kind == "}":
                cursor.take()
                self._close()
            elif token.kind == "dotted":
                self._directive()
            elif token.kind == "end":
                cursor.fail(f"the body of {head.name} is never closed")
            elif token.kind == ";":
                cursor.take()
            else:
                self._statement()
        if self.stack is not None:
            self.statements[:0] = self.stack.begin(head.line)
        return replace(
            head,
            body=tuple(self.statements),
            registers=self.registers,
            variables=self.variables,
            branch_targets=self.branch_targets,
            prototypes=self.prototypes,
            rests=frozenset(self.rests),
        )

    def _open(self) -> None:
        self.scopes.append(_Scope(len(self.statements)))

    def _close(self) -> None:
        scope = self.scopes.pop()
        renamed = {name: unique for name, unique in scope.labels.items() if name != unique}
        if not renamed:
            return
        for index in range(scope.first, len(self.statements)):
            statement = self.statements[index]
            if isinstance(statement, Instruction) and statement.opcode in ("bra", "brx"):
                operands = tuple(
                    Symbol(renamed[o.name]) if isinstance(o, Symbol) and o.name in renamed else o
                    for o in statement.operands
                )
                self.statements[index] = replace(statement, operands=operands)

    def _unique(self, name: str) -> str:
        unique = name
        while unique in self.taken:
            self.serial += 1
            unique = f"{name}.{self.serial}"
        self.taken.add(unique)
        return unique

    def resolve(self, name: str, line: int) -> Register | Symbol:
        """The innermost register or variable of that name; a label, parameter or global otherwise."""
        for scope in reversed(self.scopes):
            register = scope.registers.get(name)
            if register is not None:
                return register
            for prefix, count, kind in scope.ranges:
                digits = name[len(prefix) :]
                if name.startswith(prefix) and _is_number_below(digits, count):
                    register = Register(self._unique(name), kind)  # an inner scope may have taken the name
                    scope.registers[name] = register
                    self.registers[register.name] = kind
                    return register
            if name in scope.variables:
                return Symbol(scope.variables[name])
        if name in OFFSETS:
            self.variables[RESERVED] = reserved_variable(line)
            return OFFSETS[name]
        if name.startswith("%"):
            self.cursor.fail(f"register {name} is not declared", line)
        return Symbol(name)

    # directive ::= reg | variables | loc | skipped
    def _directive(self) -> None:
        cursor = self.cursor
        token = cursor.token
        if token.text == ".reg":
            self._reg()
        elif token.text in SPACES:
            scope = self.scopes[-1]

            def rename(name: str, line: int) -> str:
                if name in scope.variables or name in scope.registers:
                    cursor.fail(f"{name} is declared twice", line)
                scope.variables[name] = self._unique(name)
                return scope.variables[name]

            for variable in variables(cursor, "", rename):
                self.variables[variable.name] = variable
        elif token.text == ".loc":
            loc = read_loc(cursor, self.locs, self.loc)
            if loc is not self.loc:
                self.has_jumps = False
            elif loc is not None and self.has_jumps:
                loc = replace(loc, is_near=True)
            self.loc = loc
        elif token.text in _SKIPPED:
            if token.text == ".pragma":
                self.rest_begins = cursor.tokens[cursor.index + 1].text.strip('"') == "nounroll"
            skip_line(cursor)
        else:
            cursor.fail(f"directive {token.text} is not supported inside a function")

    # reg ::= ".reg" type register ("," register)* ";"      register ::= name [ "<" int ">" ]
    def _reg(self) -> None:
        cursor = self.cursor
        cursor.expect(".reg")
        if cursor.token.text in (".v2", ".v4"):
            cursor.fail("vector registers are not supported")
        kind, _ = type_name(cursor)
        scope = self.scopes[-1]
        while True:
            line = cursor.line
            name = cursor.name("the name of a register")
            is_range = cursor.accept("<")  # a<2> declares a0 and a1, so there may also be an a
            known = {prefix for prefix, *_ in scope.ranges} if is_range else scope.registers
            if name in known:
                cursor.fail(f"register {name} is declared twice", line)
            if is_range:
                count = cursor.integer("how many registers")
                cursor.expect(">")
                scope.ranges.append((name, count, kind))
            else:
                register = Register(self._unique(name), kind)
                scope.registers[name] = register
                self.registers[register.name] = kind
            if not cursor.accept(","):
                break
        cursor.expect(";")

    # statement ::= name ":" [".branchtargets" … | ".callprototype" …] | ["@" ["!"] register] instruction
    def _statement(self) -> None:
        cursor = self.cursor
        token = cursor.token
        if token.kind == "name" and cursor.tokens[cursor.index + 1].kind == ":":
            cursor.index += 2
            if cursor.token.text == ".branchtargets":
                self._branch_targets(token.text)
            elif cursor.token.text == ".callprototype":
                self._prototype(token.text)
            elif cursor.token.text == ".calltargets":
                cursor.fail(".calltargets is not supported")
            else:
                scope = self.scopes[-1]
                if token.text in scope.labels:
                    cursor.fail(f"label {token.text} is defined twice", token.line)
                scope.labels[token.text] = self._unique(token.text)
                self.statements.append(Label(token.line, scope.labels[token.text]))
                self.has_jumps = True
            return
        guard, negated = None, False
        if cursor.accept("@"):
            negated = cursor.accept("!")
            found = self.resolve(cursor.name("a predicate register"), token.line)
            if not isinstance(found, Register) or found.type != "pred":
                cursor.fail("'@' is only allowed before a predicate register", token.line)
            guard = found
        line = cursor.line
        if self.rest_begins:
            self.rests.add(line)
            self.rest_begins = False
        opcode = cursor.name("an instruction")
        modifiers = []
        while cursor.token.kind == "dotted":
            modifiers.append(cursor.take().text[1:])
        if opcode == "call":
            self.statements.append(self._call(line, guard, negated))
            return
        operands = self._operands(";")
        ordered = in_order(opcode, tuple(modifiers))
        read = Instruction(line, opcode, ordered, tuple(operands), guard, negated, self.loc)
        if "b128" in modifiers and opcode in wide.OPCODES:
            self.statements += wide.in_halves(read, cursor.file, self._halves)
        elif opcode in stack.OPCODES:
            self.statements += self._the_stack(line).written_out(read, cursor.file, self._new_register)
        else:
            self.statements += written_out(read, cursor.file, self._new_register)

    def _new_register(self, kind: str) -> Register:
        """Declare a register that does not occur in the text."""
        register = Register(self._unique("%new"), kind)
        self.registers[register.name] = kind
        return register

    def _halves(self, register: Register) -> tuple[Register, Register]:
        """The two 64-bit registers that replace one of 128 bits: low half, high half."""
        if register.name not in self.halves:
            self.halves[register.name] = self._new_register("b64"), self._new_register("b64")
        return self.halves[register.name]

    def _the_stack(self, line: int) -> stack.AllocaStack:
        if self.stack is None:
            self.stack = stack.AllocaStack(self._new_register("b64"), Symbol(self._unique("alloca")))
            self.variables[self.stack.room.name] = self.stack.variable(line)
        return self.stack

    def _branch_targets(self, name: str) -> None:
        cursor = self.cursor
        line = cursor.expect(".branchtargets").line
        found = [cursor.name("a label")]
        while cursor.accept(","):
            found.append(cursor.name("a label"))
        cursor.expect(";")
        if name in self.branch_targets:
            cursor.fail(f"{name} is defined twice", line)
        self.branch_targets[name] = tuple(found)

    # prototype ::= ".callprototype" [parameters] "_" parameters flag* ";"
    def _prototype(self, name: str) -> None:
        cursor = self.cursor
        line = cursor.expect(".callprototype").line
        returns = parameters(cursor) if cursor.token.kind == "(" else ()
        cursor.expect("_")
        params = parameters(cursor)
        while cursor.token.kind == "dotted":
            cursor.take()
        cursor.expect(";")
        if name in self.prototypes:
            cursor.fail(f"{name} is defined twice", line)
        self.prototypes[name] = Prototype(line, returns, params)

    # call ::= "call" [".uni"] ["(" operand ("," operand)* ")" ","] target ["," "(" … ")"] ["," prototype] ";"
    def _call(self, line: int, guard: Register | None, negated: bool) -> Call:
        cursor = self.cursor
        returns: tuple[Operand, ...] = ()
        if cursor.token.kind == "(":
            returns = self._arguments()
            cursor.expect(",")
        token = cursor.token
        target = self.resolve(cursor.name("the function to call"), token.line)
        arguments: tuple[Operand, ...] = ()
        prototype = None
        if cursor.accept(",") and cursor.token.kind == "(":
            arguments = self._arguments()
            cursor.accept(",")
        if cursor.token.kind == "name":
            prototype = cursor.take().text
        if cursor.token.kind != ";":
            cursor.fail(f"expected ';' after the call, found {describe(cursor.token)}")
        cursor.take()
        return Call(line, target, returns, arguments, prototype, guard, negated, self.loc)

    def _arguments(self) -> tuple[Operand, ...]:
        self.cursor.expect("(")
        return tuple(o for o in self._operands(")") if not isinstance(o, Sink))

    def _operands(self, end: str) -> list[Operand]:
        """Comma-separated operands up to a token of the kind ``end``, which is consumed."""
        cursor = self.cursor
        found: list[Operand] = []
        while cursor.token.kind != end:
            if found:
                cursor.expect(",")
            found.append(cursor.operand(self))
        cursor.expect(end)
        return found


def _is_number_below(digits: str, count: int) -> bool:
    """Whether digits are a decimal number below ``count``, without leading zeros."""
    if not (digits.isdecimal() and digits.isascii()) or len(digits) > 9:
        return False
    return str(int(digits)) == digits and int(digits) < count


# loc ::= ".loc" file line [column] ["," "function_name" label ["+" int] "," "inlined_at" file line column]
def read_loc(cursor: Cursor, known: dict[tuple[int, int, int], Loc], before: Loc | None) -> Loc | None:
    """A ``.loc``.

    LLVM gives code merged from two lines the line 0. The line before is close to it, unless it is not in the same
    call of an inlined function; then the place is that of the call.

    Args:
        known: the last ``.loc`` of each file, line and column. ``inlined_at`` refers to one of these
            (PTX ISA, ".loc"), which in turn says where its function was inlined. The new one is added to it.
        before: the last ``.loc``.
    """
    cursor.expect(".loc")
    file = cursor.integer("the number of a file")
    line = cursor.integer("a line")
    column = cursor.integer("a column") if cursor.token.kind == "int" else 0
    caller = None
    if cursor.token.kind == "," and cursor.tokens[cursor.index + 1].text == "function_name":
        cursor.index += 2
        cursor.name("a label of the debug strings")
        if cursor.accept("+"):
            cursor.integer("an offset")
        cursor.expect(",")
        cursor.expect("inlined_at")
        place = cursor.integer("the number of a file"), cursor.integer("a line"), cursor.integer("a column")
        caller = known.get(place) or Loc(*place)
        if any((call.file, call.line, call.column) == (file, line, column) for call in caller.chain):
            caller = Loc(*place)  # a recursive call
    if line <= 0:
        return before if caller is None or (before is not None and caller in before.chain) else caller
    known[file, line, column] = loc = Loc(file, line, column, caller)
    return loc


def skip_line(cursor: Cursor) -> None:
    """Skip a directive that has no effect here: to its ``;``, or to the end of its line."""
    line = cursor.line
    while cursor.token.kind not in ("end", "{", "}") and cursor.token.line == line:
        if cursor.take().kind == ";":
            return
