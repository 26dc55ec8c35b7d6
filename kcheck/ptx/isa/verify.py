"""Checks a syntax tree against the instruction table: operands, their types, labels, calls.

Code that passes can be lowered, except for problems that depend on more than one instruction (layouts, barriers in
functions). Source of the rules: PTX ISA, "Operand Type Checking": sizes agree, untyped bits match anything of
their size, a predicate matches only a predicate.
"""

from __future__ import annotations

from typing import NoReturn

from kcheck.errors import PtxError
from kcheck.ptx.isa import rows
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.isa.refused import reason
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Float,
    Function,
    Instruction,
    Integer,
    Label,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Statement,
    Symbol,
    Texel,
    Vector,
)
from kcheck.ptx.syntax.opcodes import RETURNS
from kcheck.ptx.syntax.types import TYPES, PtxType

_BRANCHES = frozenset({"bra", "brx", "ret", "exit", "trap", "bar", "barrier"})


def verify(module: Module) -> None:
    """Check every function that has a body.

    Raises:
        PtxError: the first error found, as ``file:line: instruction: what``.
    """
    for function in module.functions.values():
        if function.body is not None:
            verify_function(module, function)


def verify_function(module: Module, function: Function) -> None:
    """Check one function; raises the same errors as :func:`verify`."""
    labels = {s.name for s in function.body or () if isinstance(s, Label)}
    for name, targets in function.branch_targets.items():
        for target in targets:
            if target not in labels:
                raise PtxError(f"{name} names {target}, which is not a label", module.file, function.line)
    checker = _Checker(module, function, labels)
    for statement in function.body or ():
        checker.check(statement)


class _Checker:
    def __init__(self, module: Module, function: Function, labels: set[str]) -> None:
        self.module = module
        self.function = function
        self.labels = labels
        self.symbols = {
            *module.variables,
            *module.functions,
            *function.variables,
            *(v.name for v in (*function.params, *function.returns)),
        }

    def fail(self, statement: Statement, what: str) -> NoReturn:
        text = statement.mnemonic if isinstance(statement, Instruction) else "call"
        raise PtxError(f"{text}: {what}", self.module.file, statement.line)

    def check(self, statement: Statement) -> None:
        if isinstance(statement, Label):
            return
        if isinstance(statement, Call):
            self._call(statement)
            return
        if statement.opcode in ("bra", "brx"):
            self._branch(statement)
            return
        refused = reason(statement)
        if refused is not None:
            self.fail(statement, refused)
        for operand in statement.operands:
            self._known(statement, operand)
        if statement.opcode in _BRANCHES or statement.opcode in EFFECTS:
            if statement.opcode in RETURNS and statement.operands:
                self.fail(statement, "takes no operands")
            return
        self._row(statement)

    def _branch(self, i: Instruction) -> None:
        target = i.operands[-1] if i.operands else None
        if not isinstance(target, Symbol) or target.offset:
            self.fail(i, "expected a label")
        if i.opcode == "bra" and (len(i.operands) != 1 or target.name not in self.labels):
            self.fail(i, f"no label {target.name} in {self.function.name}")
        if i.opcode == "brx" and (len(i.operands) != 2 or target.name not in self.function.branch_targets):
            self.fail(i, f"no .branchtargets {target.name} in {self.function.name}")

    def _call(self, call: Call) -> None:
        for operand in (*call.arguments, *call.returns):
            if not isinstance(operand, Symbol):
                self.fail(call, "arguments and results must be .param variables")
            variable = self.function.variables.get(operand.name)
            if variable is None or variable.space != "param":
                self.fail(call, f"{operand.name} is not a .param variable of {self.function.name}")
        if isinstance(call.target, Register):
            if TYPES[call.target.type].bits != 64:
                self.fail(call, f"{call.target.name} does not hold an address")
        elif call.target.name not in self.module.functions:
            self.fail(call, f"{call.target.name} is not declared")
        if call.prototype is not None and call.prototype not in self.function.prototypes:
            self.fail(call, f"no .callprototype {call.prototype}")

    def _known(self, i: Instruction, operand: Operand) -> None:
        """Check that the symbols in an operand are declared."""
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            operand = operand.base
        if isinstance(operand, Symbol) and operand.name not in self.symbols:
            self.fail(i, f"{operand.name} is not declared")
        if isinstance(operand, Texel):
            operand = operand.coordinates
        if isinstance(operand, Vector):
            for element in operand.elements:
                self._known(i, element)

    def _row(self, i: Instruction) -> None:
        match = rows.of(i)
        if match is None:
            self.fail(i, "not supported")
        row, mods = rows.by_operands(i, *match)
        if len(i.operands) != len(row.slots):
            self.fail(i, f"expected {len(row.slots)} operands, found {len(i.operands)}")
        for slot, operand in zip(row.slots, i.operands, strict=True):
            if slot.type == "constant":
                if not isinstance(operand, Integer):
                    self.fail(i, "the last operand must be an integer constant")
                continue
            kind = slot.resolve(mods)
            if slot.result:
                targets = (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)
                for target in targets:
                    if not isinstance(target, Register | Sink):
                        self.fail(i, "the result must be a register")
                    if isinstance(target, Register):
                        self._fits(i, target, kind, slot.relaxed)
            else:
                self._source(i, operand, kind, slot.relaxed)

    def _source(self, i: Instruction, operand: Operand, kind: PtxType, relaxed: bool) -> None:
        if isinstance(operand, Register):
            self._fits(i, operand, kind, relaxed)
        elif isinstance(operand, Not):
            if kind.kind != "pred":
                self.fail(i, "'!' is only allowed before a predicate")
        elif isinstance(operand, Float):
            if kind.kind == "pred" or (kind.bits != operand.width and {kind.bits, operand.width} != {32, 64}):
                self.fail(i, f"a floating-point literal of {operand.width} bits for .{kind.name}")
        elif isinstance(operand, Special):
            if kind.kind in ("float", "pred", "packed"):
                self.fail(i, f"%{operand.name} is an integer")
        elif isinstance(operand, Symbol):
            if kind.bits not in (32, 64) or kind.kind in ("float", "packed"):
                self.fail(i, f"the address of {operand.name} does not fit in .{kind.name}")
        elif not isinstance(operand, Integer):
            self.fail(i, "this kind of operand is not allowed here")

    def _fits(self, i: Instruction, register: Register, kind: PtxType, relaxed: bool) -> None:
        declared = TYPES[register.type]
        same = declared.bits == kind.bits or (relaxed and declared.bits > kind.bits)
        if not same or (declared.kind == "pred") != (kind.kind == "pred"):
            self.fail(i, f"{register.name} is .{declared.name}, but .{kind.name} is required")
