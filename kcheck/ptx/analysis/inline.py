"""Inlines calls of functions in which a warp may have to wait.

To suspend a warp, its code returns from the kernel's function (:mod:`kcheck.ptx.lowering.warp`), which a called
function cannot do. So functions with a barrier, or with a loop that may spin on another lane, become part of the
kernel. Their registers, labels and local variables are renamed; formal parameters become the arguments of the
call; shared variables keep one name, since all copies share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis.spin import may_spin
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Function,
    Instruction,
    Label,
    Module,
    Not,
    Operand,
    Operation,
    Pair,
    Prototype,
    Register,
    Statement,
    Symbol,
    Texel,
    Variable,
    Vector,
)

_MAX_STATEMENTS = 200_000


def expand(module: Module, kernel: Function, waits: Callable[[Operation], bool]) -> Function:
    """The kernel, with every function inlined in which a warp may have to wait.

    Args:
        waits: whether a warp may have to wait at an operation.

    Raises:
        PtxError: such a function is recursive, or the kernel becomes too large.
    """
    waiting = _waiting(module, waits)
    if not waiting:
        return kernel
    expansion = _Expansion(module, waiting)
    body = expansion.expand(kernel, {}, "", (kernel.name,))
    return replace(
        kernel,
        body=tuple(body),
        registers=dict(kernel.registers) | expansion.registers,
        variables=dict(kernel.variables) | expansion.variables,
        branch_targets=dict(kernel.branch_targets) | expansion.branch_targets,
        prototypes=dict(kernel.prototypes) | expansion.prototypes,
    )


def _waiting(module: Module, waits: Callable[[Operation], bool]) -> frozenset[str]:
    """Functions in which a warp may have to wait, directly or in the functions that they call."""
    found = set()
    for function in module.functions.values():
        if function.body is None or function.is_entry:
            continue
        if any(not isinstance(s, Label) and waits(s) for s in function.body) or may_spin(
            control.build(function, module.file)
        ):
            found.add(function.name)
    grew = True
    while grew:
        grew = False
        for function in module.functions.values():
            if function.name not in found and not function.is_entry:
                for s in function.body or ():
                    if isinstance(s, Call) and isinstance(s.target, Symbol) and s.target.name in found:
                        found.add(function.name)
                        grew = True
    return frozenset(found)


@dataclass(slots=True)
class _Expansion:
    module: Module
    waiting: frozenset[str]
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    copies: int = 0
    statements: int = 0

    def expand(
        self, function: Function, names: Mapping[str, str], suffix: str, path: tuple[str, ...]
    ) -> list[Statement]:
        """The statements of a function, with symbols renamed by ``names``; registers get the suffix.

        Args:
            path: the names of the functions from the kernel to this one.

        Raises:
            PtxError: a function calls itself, or there are too many statements.
        """
        found: list[Statement] = []
        for statement in function.body or ():
            self.statements += 1
            if self.statements > _MAX_STATEMENTS:
                raise PtxError(f"{path[0]} is too large after inlining its calls", self.module.file, function.line)
            renamed = _rename(statement, names, suffix)
            if (
                isinstance(statement, Call)
                and isinstance(statement.target, Symbol)
                and statement.target.name in self.waiting
            ):
                assert isinstance(renamed, Call)
                found.extend(self._place(renamed, statement.target.name, path))
            elif suffix and isinstance(renamed, Instruction) and renamed.opcode == "ret":
                end = Symbol(f"end{suffix}")
                found.append(replace(renamed, opcode="bra", modifiers=(), operands=(end,)))
            else:
                found.append(renamed)
        return found

    def _place(self, call: Call, name: str, path: tuple[str, ...]) -> list[Statement]:
        callee = self.module.functions[name]
        if name in path:
            raise PtxError(
                f"call: {name} calls itself and has a barrier or waits for other threads, which is not supported",
                self.module.file,
                call.line,
            )
        formal = (*callee.params, *callee.returns)
        actual = (*call.arguments, *call.returns)
        if len(callee.params) != len(call.arguments) or len(callee.returns) != len(call.returns):
            raise PtxError(f"call: the arguments or results do not match {name}", self.module.file, call.line)
        self.copies += 1
        suffix = f"@{self.copies}"
        names: dict[str, str] = {}
        for variable, operand in zip(formal, actual, strict=True):
            if not isinstance(operand, Symbol):
                raise PtxError("call: arguments must be .param variables", self.module.file, call.line)
            names[variable.name] = operand.name
        for variable in callee.variables.values():
            new = f"{name}::{variable.name}" if variable.space == "shared" else variable.name + suffix
            names[variable.name] = new
            self.variables[new] = replace(variable, name=new)
        for register, kind in callee.registers.items():
            self.registers[register + suffix] = kind
        for statement in callee.body or ():
            if isinstance(statement, Label):
                names[statement.name] = statement.name + suffix
        for table, targets in callee.branch_targets.items():
            names[table] = table + suffix
            self.branch_targets[table + suffix] = tuple(target + suffix for target in targets)
        for prototype, shape in callee.prototypes.items():
            self.prototypes[prototype + suffix] = shape
        body = self.expand(callee, names, suffix, (*path, name))
        end = f"end{suffix}"
        if call.guard is not None:
            skip = Instruction(call.line, "bra", (), (Symbol(end),), call.guard, not call.negated, call.loc)
            body.insert(0, skip)
        return [*body, Label(call.line, end)]


def _rename(statement: Statement, names: Mapping[str, str], suffix: str) -> Statement:
    if not suffix:
        return statement
    if isinstance(statement, Label):
        return Label(statement.line, names.get(statement.name, statement.name))
    guard = None if statement.guard is None else Register(statement.guard.name + suffix, statement.guard.type)
    if isinstance(statement, Call):
        target = _operand(statement.target, names, suffix)
        assert isinstance(target, Symbol | Register)
        return replace(
            statement,
            guard=guard,
            target=target,
            returns=tuple(_operand(o, names, suffix) for o in statement.returns),
            arguments=tuple(_operand(o, names, suffix) for o in statement.arguments),
            prototype=None if statement.prototype is None else statement.prototype + suffix,
        )
    return replace(statement, guard=guard, operands=tuple(_operand(o, names, suffix) for o in statement.operands))


def _operand(operand: Operand, names: Mapping[str, str], suffix: str) -> Operand:
    if isinstance(operand, Register):
        return Register(operand.name + suffix, operand.type)
    if isinstance(operand, Symbol):
        return Symbol(names.get(operand.name, operand.name), operand.offset)
    if isinstance(operand, Address):
        base = _operand(operand.base, names, suffix)
        assert isinstance(base, Register | Symbol) or base is operand.base
        return Address(base, operand.offset)
    if isinstance(operand, Texel):
        handle, place = _operand(operand.object, names, suffix), _operand(operand.coordinates, names, suffix)
        assert isinstance(handle, Register)
        assert isinstance(place, Vector)
        return Texel(handle, place)
    if isinstance(operand, Vector):
        return Vector(tuple(_operand(e, names, suffix) for e in operand.elements))
    if isinstance(operand, Pair):
        return Pair(_operand(operand.first, names, suffix), _operand(operand.second, names, suffix))
    if isinstance(operand, Not):
        return Not(Register(operand.register.name + suffix, operand.register.type))
    return operand
