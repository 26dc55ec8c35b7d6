"""Runs a kernel with terms instead of numbers: every path at once, each loop for any number of iterations.

Where paths meet, a register holds an ``if`` of their values. In a loop, a register that grows by the same amount
in each iteration is its first value plus the number of the iteration times that amount. A register that is
computed again from those is the value of the iteration before. Any other register may hold anything that its type
can (:mod:`kcheck.prover.loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kcheck.dataclass import dataclass
from kcheck.prover import instructions
from kcheck.prover.bits import Bits, type_range
from kcheck.prover.instructions import Value
from kcheck.prover.model import (
    Decision,
    Meeting,
    Parameters,
    Region,
    SymbolicAccess,
    SymbolicBranch,
    SymbolicTrap,
    Trace,
    Unsupported,
    Visit,
    Widening,
)
from kcheck.prover.prover import Prover
from kcheck.prover.simplify import Simplification
from kcheck.prover.terms import BLOCK, THREAD, Atom, Formula, Poly, Terms
from kcheck.prover.transfers import copied, extents, fragment, is_transfer, matrix_rows
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import liveness
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Float,
    Function,
    Instruction,
    Integer,
    Not,
    Operand,
    Operation,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from kcheck.ptx.syntax.opcodes import CARRY_READERS, HINTS
from kcheck.ptx.syntax.types import TYPES

Registers = dict[str, Value]
_SPACES = ("global", "shared", "local", "const", "param")
_NO_EFFECT = HINTS | {"pragma"}
_LANES_MEET = ("shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "movmatrix", "wmma")
_IGNORED_CALLS = ("vprintf",)
PURE = frozenset(
    """abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns lg2 lop3 mad
    mad24 max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub
    szext tanh testp xor""".split()  # noqa: SIM905 - a table reads better as words
)
"""The results of these depend on nothing but the operands."""
MOST_STEPS = 150_000
"""The limit of executed instructions, counting each loop a few times."""
_MOST_CHOICES = 8
"""How many values of nested selects are noted."""
STORED = "param "
"""The names of arguments and results of calls among the registers of a state start with it."""


@dataclass(slots=True)
class Edge:
    """A way from one basic block to another: the state on it, and the condition to take it."""

    source: int
    target: int
    path: Formula
    registers: Registers


class Loops(Protocol):
    """Executes the loops of a kernel (:mod:`kcheck.prover.loops`)."""

    def execute(self, number: int, start: Edge, loops: tuple[int, ...]) -> list[Edge]:
        """Execute a loop from the state before it. Returns the edges that leave it."""
        ...


class SymbolicExecution:
    """One kernel.

    Args:
        cfg: of the kernel, with all functions inlined.
        specials: the values of special registers that are known.
        regions: the arrays and variables, by the atom of the address.
        summary: makes what executes the loops of an execution.
        most_steps: the kernel is too long if more instructions are executed.
        notes_decisions: note each predicate that is computed.
        loaded: the value of a load from a read-only array: (region, address, signed, width, path); None: unknown.
    """

    def __init__(
        self,
        terms: Terms,
        prover: Prover,
        function: Function,
        cfg: Cfg,
        parameters: Parameters,
        offsets: Mapping[str, int],
        specials: Mapping[str, Poly],
        regions: Mapping[Atom, Region],
        symbols: Mapping[str, Atom],
        loaded: Callable[[Region, Poly, int, Bits], Poly | None],
        summary: Callable[[SymbolicExecution], Loops],
        most_steps: int = MOST_STEPS,
        notes_decisions: bool = False,
    ) -> None:
        self.terms = terms
        self.prover = prover
        self.cfg = cfg
        self.trace = Trace()
        self.regions = regions
        self.summary = summary(self)
        self.live = liveness.analyze(cfg)
        self.recording = True
        self._notes_decisions = notes_decisions
        self._visited: set[tuple[object, Formula, Formula | None]] = set()
        self.inside: tuple[int, ...] = ()
        self.divergent = self.trace.divergent
        self._function = function
        self._parameters = parameters
        self._offsets = offsets
        self._specials = specials
        self._symbols = symbols
        self._loaded = loaded
        self.steps, self._most_steps = 0, most_steps
        self._forks = forks(cfg)
        self._after = control.postdominators(cfg)
        self._divided: dict[int, set[int]] = {}
        self.decisions: dict[int, Formula] = {}
        """By block, the condition of the branch at its end, in the iteration that is executed."""
        self._paths: dict[int, Formula] = {}
        """By block, the condition to reach its end, in the iteration that is executed."""

    def run(self) -> Trace:
        """Execute the kernel.

        Raises:
            Unsupported: it has something of which there is no model.
            ProofTimeout: the time of the kernel is over.
        """
        order = self.cfg.order
        self.region(order, order[0], [Edge(-1, order[0], self.terms.true, {})], ())
        return self.trace

    # --- control flow

    def region(self, blocks: Sequence[int], first: int, entries: list[Edge], loops: tuple[int, ...]) -> list[Edge]:
        """Execute blocks in order. Returns the edges that leave them, or lead back to the first one.

        Args:
            loops: those around the blocks, outermost first.
        """
        inside = set(blocks)
        pending: dict[int, list[Edge]] = {first: entries}
        out: list[Edge] = []
        skipped: set[int] = set()
        for n in blocks:
            if n in skipped:
                continue
            edges = pending.pop(n, [])
            edges = [e for e in edges if e.path is not self.terms.false]
            if not edges:
                continue
            loop = self._loop_at(n, loops)
            if loop is not None:
                skipped |= self.cfg.loops[loop].blocks
                leaving = self.summary.execute(loop, self.merged(edges, n), loops)
            else:
                leaving = self._block(n, self.merged(edges, n), loops)
            for edge in leaving:
                if edge.target in inside and edge.target != first and edge.target not in skipped:
                    pending.setdefault(edge.target, []).append(edge)
                else:
                    out.append(edge)
        return out

    def _loop_at(self, n: int, loops: tuple[int, ...]) -> int | None:
        for number, loop in enumerate(self.cfg.loops):
            if loop.header == n and number not in loops:
                if not loop.single_entry:
                    raise Unsupported("a loop has several entries", self._operation(n))
                return number
        return None

    def _operation(self, n: int) -> Operation | None:
        block = self.cfg.blocks[n]
        return next(iter(block.operations), None)

    def merged(self, edges: list[Edge], n: int) -> Edge:
        """The state at the start of a block."""
        terms = self.terms
        if len(edges) == 1:
            only = edges[0]
            return Edge(only.source, n, only.path, dict(only.registers))
        before = self._forks.get(n)
        known = None if before is None else self._paths.get(before)
        path = edges[0].path if known is None else known
        for edge in edges[1:] if known is None else ():
            path = terms.joined(path, edge.path)
        common = terms.conjuncts(path)
        choices = [terms.all(c for c in terms.conjuncts(e.path) if c not in common) for e in edges]
        registers: Registers = {}
        stored = {name for e in edges for name in e.registers if name.startswith(STORED)}
        for name in (*self.live.names(n), *sorted(stored)):
            found = [(c, e.registers[name]) for c, e in zip(choices, edges, strict=True) if name in e.registers]
            if not found:
                continue
            value = found[-1][1]
            for choice, other in reversed(found[:-1]):
                value = self.choose(choice, other, value)
            registers[name] = value
        return Edge(-1, n, path, registers)

    def choose(self, condition: Formula, a: Value, b: Value) -> Value:
        """``a`` if the condition holds, otherwise ``b``."""
        if a is b:
            return a
        terms = self.terms
        if isinstance(a, Formula) and isinstance(b, Formula):
            return terms.any((terms.all((condition, a)), terms.all((terms.negated(condition), b))))
        if isinstance(a, Poly) and isinstance(b, Poly):
            return terms.either(condition, a, b)
        raise Unsupported("a register is a number on one path and a predicate on another")

    def _block(self, n: int, start: Edge, loops: tuple[int, ...]) -> list[Edge]:
        """Execute a basic block, and return the edges that leave it."""
        registers, block = start.registers, self.cfg.blocks[n]
        self.inside = loops
        path = start.path
        for operation in block.body:
            self.steps += 1
            if self.steps > self._most_steps:
                raise Unsupported("the kernel is too long", operation)
            self._note_visit(operation, registers, path)
            stops = self._step(operation, registers, path, n, loops)
            if stops is not None:
                path = self.terms.all((path, stops))
        self._paths[n] = path
        end = block.terminator
        if end is None:
            return [Edge(n, s, path, registers) for s in block.successors]
        self._note_visit(end, registers, path)
        if isinstance(end, Call):
            raise Unsupported("it waits for other blocks", end)
        if end.opcode == "bra":
            return self._branch(n, end, path, registers)
        if end.opcode in ("ret", "exit", "trap"):
            stops = self._predicate(end, registers)
            if end.opcode == "trap" and self.recording:
                self.trace.traps.append(SymbolicTrap(end, self.terms.all((path, stops))))
            if end.guard is None:
                return []
            self._note_branch(end, stops, path, n)
            self.decisions[n] = stops
            rest = self.terms.all((path, self.terms.negated(stops)))
            return [Edge(n, s, rest, registers) for s in block.successors]
        if end.opcode in ("bar", "barrier"):
            self._barrier(end, registers, path, n)
            return [Edge(n, s, path, dict(registers)) for s in block.successors]
        raise Unsupported(f"{end.opcode} is not supported", end)

    def _branch(self, n: int, end: Instruction, path: Formula, registers: Registers) -> list[Edge]:
        successors = self.cfg.blocks[n].successors
        if end.guard is None:
            return [Edge(n, successors[0], path, registers)]
        terms = self.terms
        condition = self._predicate(end, registers)
        if self.recording and condition.kind != "flag":
            condition = Simplification(terms, self.prover, path).condition(condition)
        self.decisions[n] = condition
        if self.recording and condition not in (terms.true, terms.false):
            self._note_branch(end, condition, path, n)
        edges = [Edge(n, successors[0], terms.all((path, condition)), registers)]
        if len(successors) > 1:
            edges.append(Edge(n, successors[1], terms.all((path, terms.negated(condition))), dict(registers)))
        return edges

    def _note_branch(self, end: Instruction, condition: Formula, path: Formula, n: int) -> None:
        if self.recording:
            self.trace.branches.append(SymbolicBranch(end, condition, path, n))

    def _note_visit(self, operation: Operation, registers: Registers, path: Formula) -> None:
        """Note an instruction, unless it is one more of a line under the same condition."""
        if not (self._notes_decisions and self.recording):
            return
        condition = None if operation.guard is None else self._predicate(operation, registers)
        place: object = operation.loc or operation.line
        key = (place if condition is None else id(operation), path, condition)
        if key not in self._visited:
            self._visited.add(key)
            self.trace.visits.append(Visit(operation, path, condition))

    def _barrier(self, end: Instruction, registers: Registers, path: Formula, n: int) -> None:
        problem = ""
        operands = end.operands[1:] if "red" in end.modifiers else end.operands
        if "red" in end.modifiers:
            operands = operands[:-1]
            result = end.operands[0]
            assert isinstance(result, Register)
            registers[result.name] = self._anything(result, "votes of the block", BLOCK)
        if end.guard is not None:
            problem = "the barrier has a guard"
        elif not operands or not isinstance(operands[0], Integer):
            problem = "the number of the barrier is computed"
        elif operands[0].value != 0 or len(operands) > 1:
            problem = "the barrier counts some of the threads"
        if "cluster" in end.modifiers:
            raise Unsupported("it waits for other blocks", end)
        if self.recording:
            self.trace.meetings.append(Meeting(end, path, n, False, problem))

    # --- instructions

    def _predicate(self, operation: Operation, registers: Registers) -> Formula:
        guard = operation.guard
        if guard is None:
            return self.terms.true
        condition = self._flag(guard, registers)
        return self.terms.negated(condition) if operation.negated else condition

    def _flag(self, register: Register, registers: Registers) -> Formula:
        value = registers.get(register.name)
        if not isinstance(value, Formula):
            value = registers[register.name] = self.terms.fresh_flag(register.name, THREAD)
        return value

    def bits(self, path: Formula) -> Bits:
        """Arithmetic at a place with this path condition."""
        return Bits(self.terms, self.prover, path, asks=self.recording)

    def _step(
        self, operation: Operation, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]
    ) -> Formula | None:
        """Execute an operation. Returns what holds after it, if a guarded one ends the thread."""
        guard = self._predicate(operation, registers)
        if guard is self.terms.false:
            return None
        whole = self.terms.all((path, guard))
        if isinstance(operation, Call):
            self._call(operation, registers)
            return None
        before = None
        if guard is not self.terms.true:
            before = {r.name: registers.get(r.name) for r in liveness.writes(operation)}
        self._instruction(operation, registers, whole, n, loops)
        for name, old in (before or {}).items():
            if old is not None and name in registers:
                registers[name] = self.choose(guard, registers[name], old)
        return None

    def _call(self, operation: Call, registers: Registers) -> None:
        target = operation.target
        if not isinstance(target, Symbol):
            raise Unsupported("a call through a pointer is not supported", operation)
        if target.name not in _IGNORED_CALLS:
            raise Unsupported(f"it calls {target.name}", operation)
        for result in operation.returns:
            for register in liveness.registers(result):
                registers[register.name] = self._anything(register, target.name)

    def _instruction(
        self, i: Instruction, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]
    ) -> None:
        opcode = i.opcode
        if opcode in ("ld", "ldu"):
            self._load(i, registers, path, n, loops)
        elif opcode == "st":
            self._store(i, registers, path, n, loops)
        elif opcode in ("atom", "red"):
            self._atomic(i, registers, path, n, loops)
        elif opcode in ("bar", "barrier"):
            self._lanes(i, registers, path, n)
        elif opcode in _LANES_MEET:
            self._lanes(i, registers, path, n)
            if is_transfer(i):
                self._transfer(i, registers, path, n, loops)
            self._havoc(i, registers)
        elif opcode == "cp":
            self._transfer(i, registers, path, n, loops)
        elif opcode in ("mbarrier", "sust", "suld", "tex", "tld4", "brx", "alloca", "elect"):
            raise Unsupported(f"{opcode} is not supported", i)
        elif opcode in _NO_EFFECT:
            return
        elif opcode == "activemask" or opcode in CARRY_READERS or "cc" in i.modifiers:
            self._havoc(i, registers)
        elif opcode not in PURE:
            raise Unsupported(f"{opcode} is not supported", i)
        else:
            self._compute(i, registers, path)

    def _havoc(self, i: Instruction, registers: Registers) -> None:
        for register in liveness.writes(i):
            registers[register.name] = self._anything(register, i.opcode)

    def _anything(self, register: Register, name: str, level: int = THREAD) -> Value:
        """An unknown value of a register."""
        kind = TYPES[register.type]
        if kind.kind == "pred":
            return self.terms.fresh_flag(name, level)
        found = self.terms.fresh(name, type_range(False, max(kind.bits, 32)), level)
        self.scoped(found)
        return found

    def scoped(self, value: Poly, loops: tuple[int, ...] | None = None) -> None:
        """Note that a new variable may differ in each iteration of the loops around it."""
        self.trace.scopes[next(value.atoms())] = self.inside if loops is None else loops

    def _lanes(self, i: Instruction, registers: Registers, path: Formula, n: int) -> None:
        """An instruction for which the lanes of a warp meet."""
        problem = ""
        if "sync" in i.modifiers and i.opcode not in ("mma", "movmatrix", "wmma") and "aligned" not in i.modifiers:
            mask = i.operands[0] if i.opcode in ("bar", "barrier") else i.operands[-1]
            value = self._value(mask, registers)
            if not isinstance(value, Poly) or value.constant is None or value.constant & 0xFFFFFFFF != 0xFFFFFFFF:
                problem = "its mask does not name all lanes, or is computed"
        if self.recording:
            self.trace.meetings.append(Meeting(i, path, n, True, problem))

    def _compute(self, i: Instruction, registers: Registers, path: Formula) -> None:
        opcode, operands = i.opcode, i.operands
        terms, b = self.terms, self.bits(path)
        if opcode == "setp":
            self._set_predicates(i, registers, b, path)
            return
        target = operands[0]
        given = [self._value(o, registers) for o in operands[1:]]
        if opcode == "selp" and isinstance(given[2], Formula):
            chosen = given[2]
            if self.recording and chosen.kind != "flag":
                chosen = Simplification(terms, self.prover, path).condition(chosen)
            result: Value = self.choose(chosen, given[0], given[1])
            self._note_choices(i, result, path)
        elif opcode in ("mov", "cvta") and len(given) == 1:
            if isinstance(target, Vector):
                self._unpack(target, given[0], i, registers, b)
                return
            result = given[0]
            if isinstance(target, Register) and target.type == "pred" and isinstance(result, Poly):
                result = terms.compare("ne", result, terms.zero)
        elif isinstance(target, Register) and target.type == "pred":
            result = self._logic(i, given)
            self._note_decision(i, result, path)
        elif opcode == "cvt" and all(isinstance(g, Poly) for g in given):
            numbers = [g for g in given if isinstance(g, Poly)]
            result = instructions.converted(b, i, numbers)
            self._note_widening(i, numbers[:1], path, result)
        elif all(isinstance(g, Poly) for g in given):
            numbers = [g for g in given if isinstance(g, Poly)]
            result = instructions.computed(b, i, numbers)
            if opcode in ("mul", "mad") and "wide" in i.modifiers:
                self._note_widening(i, numbers[:2], path, result)
            elif opcode == "shr":
                self._note_shifted_back(i, numbers, path, result)
        else:
            result = instructions.unknown(b, i, given)
        if isinstance(target, Register):
            registers[target.name] = result
        elif not isinstance(target, Sink):
            for number, register in enumerate(liveness.writes(i)):
                registers[register.name] = (
                    terms.flag(f"{i.mnemonic}.{number}", given, THREAD)
                    if register.type == "pred"
                    else terms.function(f"{i.mnemonic}.{number}", given, type_range(False, 64))
                )

    def _note_widening(self, i: Instruction, given: Iterable[Poly], path: Formula, result: Value) -> None:
        """Note 32-bit sums and products that may have wrapped."""
        if not self.recording or not isinstance(result, Poly):
            return
        if not instructions.is_integer(i.modifiers[-1]) or TYPES[i.modifiers[-1]].bits != 32:
            return
        if i.opcode == "cvt" and (
            not instructions.is_integer(i.modifiers[-2]) or TYPES[i.modifiers[-2]].bits != 64
        ):
            return
        signed = TYPES[i.modifiers[-1]].kind == "signed"
        for value in given:
            is_sum = len(value.terms) != 1 or value.terms[0][1] != 1 or len(value.terms[0][0]) != 1
            if is_sum and value.constant is None and not self.bits(path).fits(value, signed, 32):
                self.trace.widenings.append(Widening(i, value, signed, path, result))

    def _note_shifted_back(self, i: Instruction, given: list[Poly], path: Formula, result: Value) -> None:
        """Note a 64-bit number whose lower half shifts extend: ``i << 32 >> 30`` is ``4 * int64(int32(i))``."""
        count = given[1].constant
        if not self.recording or not isinstance(result, Poly) or i.modifiers != ("s64",):
            return
        value = self.terms.exact_quotient(given[0], 1 << 32)
        if value is None or count is None or not 0 < count <= 32 or value.constant is not None:
            return
        if not self.bits(path).fits(value, True, 32):
            self.trace.widenings.append(Widening(i, value, True, path, result))

    def _set_predicates(self, i: Instruction, registers: Registers, b: Bits, path: Formula) -> None:
        terms = self.terms
        given = [self._value(o, registers) for o in i.operands[1:]]
        condition = instructions.compared(b, i, given[:2])
        other = terms.negated(condition)
        if len(given) == 3:
            third = given[2]
            if not isinstance(third, Formula):
                raise Unsupported("a predicate is not known", i)
            combine: Callable[..., Formula]
            if "and" in i.modifiers:
                combine = lambda c: terms.all((c, third))  # noqa: E731
            elif "or" in i.modifiers:
                combine = lambda c: terms.any((c, third))  # noqa: E731
            else:
                combine = lambda c: self._exclusive(c, third)  # noqa: E731
            condition, other = combine(condition), combine(other)
        self._note_decision(i, condition, path)
        target = i.operands[0]
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        for operand, value in ((first, condition), (second, other)):
            if isinstance(operand, Register):
                registers[operand.name] = value

    def _note_decision(self, i: Instruction, condition: Formula, path: Formula) -> None:
        wanted = self.recording and self._notes_decisions
        if wanted and condition not in (self.terms.true, self.terms.false):
            self.trace.decisions.append(Decision(i, condition, path))

    def _note_choices(self, i: Instruction, chosen: Value, path: Formula, most: int = _MOST_CHOICES) -> None:
        """Note the conditions under which nested selects have each of their values. ``a and b`` often becomes
        a select in a select."""
        if not self.recording or not self._notes_decisions or not isinstance(chosen, Poly):
            return
        terms = self.terms
        pending: list[tuple[Poly, tuple[Formula, ...]]] = [(chosen, ())]
        while pending and most:
            value, conditions = pending.pop()
            atom = value.only_atom
            if atom is not None and atom.kind == "if":
                condition, a, b = atom.arguments
                assert isinstance(condition, Formula)
                assert isinstance(a, Poly)
                assert isinstance(b, Poly)
                pending.append((b, (*conditions, terms.negated(condition))))
                pending.append((a, (*conditions, condition)))
            elif len(conditions) > 1:
                most -= 1
                self._note_decision(i, terms.all(conditions), path)

    def _exclusive(self, a: Formula, b: Formula) -> Formula:
        terms = self.terms
        return terms.any((terms.all((a, terms.negated(b))), terms.all((terms.negated(a), b))))

    def _logic(self, i: Instruction, given: Sequence[Value]) -> Formula:
        """An instruction whose result is a predicate."""
        terms = self.terms
        flags = [g for g in given if isinstance(g, Formula)]
        if len(flags) == len(given):
            if i.opcode == "and":
                return terms.all(flags)
            if i.opcode == "or":
                return terms.any(flags)
            if i.opcode == "xor":
                return self._exclusive(flags[0], flags[1])
            if i.opcode == "not":
                return terms.negated(flags[0])
        return terms.flag(i.mnemonic, given)

    def _unpack(self, target: Vector, value: Value, i: Instruction, registers: Registers, b: Bits) -> None:
        """``mov.b64 {low, high}, wide``."""
        whole = TYPES[i.modifiers[-1]].bits
        part = whole // len(target.elements)
        if not isinstance(value, Poly):
            raise Unsupported("a predicate is unpacked", i)
        number = b.read(value, False, whole)
        for at, element in enumerate(target.elements):
            if isinstance(element, Register):
                moved = value if at == 0 else self.terms.div(number, 1 << at * part)
                registers[element.name] = moved if part >= 32 else b.read(moved, False, part)

    def _value(self, operand: Operand, registers: Registers) -> Value:
        terms = self.terms
        if isinstance(operand, Register):
            found = registers.get(operand.name)
            if found is None:
                found = registers[operand.name] = self._anything(operand, operand.name)
            return found
        if isinstance(operand, Integer):
            return terms.number(operand.value)
        if isinstance(operand, Float):
            return terms.number(operand.bits)
        if isinstance(operand, Special):
            return self._special(operand.name)
        if isinstance(operand, Not):
            return terms.negated(self._flag(operand.register, registers))
        if isinstance(operand, Symbol):
            return terms.sum(self._symbol(operand.name), terms.number(operand.offset))
        if isinstance(operand, Vector):
            return self._packed(operand, registers)
        raise Unsupported("an operand is not supported")

    def _special(self, name: str) -> Poly:
        known = self._specials.get(name)
        if known is not None:
            return known
        found = self.terms.fresh(name, type_range(False, 64))
        self.scoped(found)
        return found

    def _symbol(self, name: str) -> Poly:
        if name not in self._symbols:
            return self.terms.function("address of", (name,), type_range(False, 64))
        return self.terms.of(self._symbols[name])

    def _packed(self, operand: Vector, registers: Registers) -> Poly:
        """``mov.b64 wide, {low, high}``."""
        terms = self.terms
        parts = [self._value(o, registers) for o in operand.elements]
        widths = {TYPES[o.type].bits for o in operand.elements if isinstance(o, Register)}
        width = max(widths, default=64 // len(parts))
        found = []
        for n, part in enumerate(parts):
            if not isinstance(part, Poly):
                raise Unsupported("a predicate is packed")
            number = self.bits(terms.true).read(part, False, width)
            found.append(terms.scaled(number, 1 << n * width))
        return terms.sum(*found)

    # --- memory

    def _form(self, i: Instruction) -> tuple[str, int, int, bool]:
        """(space, elements, bytes of an element, whether it is signed) of a load or store."""
        space = next((m.partition("::")[0] for m in i.modifiers if m.partition("::")[0] in _SPACES), "generic")
        count = next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
        kind = TYPES.get(i.modifiers[-1])
        if kind is None:
            raise Unsupported(f"{i.mnemonic} is not supported", i)
        return space, count, kind.bytes, kind.kind == "signed"

    def _address(self, operand: Operand, registers: Registers, i: Instruction) -> Poly:
        if not isinstance(operand, Address):
            raise Unsupported(f"{i.mnemonic} is not supported", i)
        base = self._value(operand.base, registers)
        if not isinstance(base, Poly):
            raise Unsupported("an address is a predicate", i)
        return self.terms.sum(base, self.terms.number(operand.offset))

    def _note(
        self,
        i: Instruction,
        kind: str,
        space: str,
        address: Poly,
        size: int,
        path: Formula,
        n: int,
        loops: tuple[int, ...],
        *,
        is_async: bool = False,
    ) -> None:
        if self.recording:
            access = SymbolicAccess(i, kind, space, address, size, path, n, loops, is_async)  # type: ignore[arg-type]
            self.trace.accesses.append(access)

    def _transfer(
        self, i: Instruction, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]
    ) -> None:
        """An asynchronous copy, or a matrix that a warp loads or stores."""
        terms = self.terms
        if i.opcode == "cp":
            operands = i.operands[:-1] if "L2::cache_hint" in i.modifiers else i.operands
            amount = self._value(operands[3], registers) if len(operands) > 3 else None
            found = list(copied(terms, i, amount))
        elif i.opcode == "wmma":
            rows, groups, _ = extents(i)
            element = tuple(terms.fresh("element", (0, count - 1)) for count in (rows, groups))
            for one in element:
                self.scoped(one)
            stride = self._value(i.operands[2], registers) if len(i.operands) > 2 else None
            if isinstance(stride, Formula):
                raise Unsupported("a stride is a predicate", i)
            number = None if stride is None else self.bits(path).read(stride, False, 32)
            found = [fragment(terms, i, number, (element[0], element[1]))]
        else:
            found = [matrix_rows(terms, i, self._special("laneid"))]
        for t in found:
            address = terms.sum(self._address(i.operands[t.operand], registers, i), t.offset)
            whole = terms.all((path, t.condition))
            if whole is not terms.false:
                self._note(i, t.kind, t.space, address, t.size, whole, n, loops, is_async=t.is_async)

    def _load(self, i: Instruction, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]) -> None:
        space, count, size, signed = self._form(i)
        target, source = i.operands[0], i.operands[1]
        targets = target.elements if isinstance(target, Vector) else (target,)
        if space == "param":
            self._load_parameter(i, targets, source, size, signed, registers, path)
            return
        address = self._address(source, registers, i)
        self._note(i, "read", space, address, size * count, path, n, loops)
        for at, element in enumerate(targets):
            if isinstance(element, Register):
                where = self.terms.sum(address, self.terms.number(at * size))
                together = path.level <= BLOCK or self._is_together(i, registers, n)
                value = self._memory_value(i, where, size, _is_signed(element, size, signed), path, together)
                registers[element.name] = self._extended(element, value, size, signed, path)

    def _extended(self, register: Register, value: Value, size: int, signed: bool, path: Formula) -> Value:
        """What a register holds after a load: one that is wider gets the number, and not only the bits."""
        if isinstance(value, Poly) and TYPES[register.type].bits > 8 * size:
            return self.bits(path).read(value, signed, 8 * size)
        return value

    def _is_together(self, i: Instruction, registers: Registers, n: int) -> bool:
        """Whether all threads of a block execute an instruction, or none: no branch that threads may take
        differently leads to it."""
        if self._predicate(i, registers).level > BLOCK:
            return False
        for at, condition in self.decisions.items():
            if condition.level > BLOCK:
                if at not in self._divided:
                    self._divided[at] = control.divided(self.cfg, at, self._after)
                if n in self._divided[at]:
                    return False
        return True

    def _memory_value(
        self, i: Instruction, where: Poly, size: int, signed: bool, path: Formula, together: bool
    ) -> Poly:
        """What a load returns; ``together``: whether all threads of a block execute it, or none."""
        region = self.region_of(where)
        b = self.bits(path)
        if region is not None and region.is_read_only:
            found = self._loaded(region, self.terms.minus(where, self.terms.of(region.base)), size, b)
            if found is not None:
                return found
        level = THREAD
        uniform = where.level <= BLOCK and together and self.divergent.isdisjoint(self.inside)
        if uniform and region is not None and region.space == "shared":
            level = BLOCK
        value = self.terms.fresh(f"value at line {_line(i)}", type_range(signed, 8 * size), level)
        if level == BLOCK:
            next(value.atoms()).needs_order = True
        self.scoped(value)
        return value

    def region_of(self, address: Poly) -> Region | None:
        """The region that an address is in, if there is one base with the factor 1."""
        bases = [(m, f) for m, f in address.terms if any(a.kind == "base" for a in m)]
        if len(bases) != 1 or bases[0][1] != 1 or len(bases[0][0]) != 1:
            return None
        return self.regions.get(bases[0][0][0])

    def _load_parameter(
        self,
        i: Instruction,
        targets: Sequence[Operand],
        source: Operand,
        size: int,
        signed: bool,
        registers: Registers,
        path: Formula,
    ) -> None:
        if not isinstance(source, Address) or not isinstance(source.base, Symbol):
            raise Unsupported("a parameter is read at a computed address", i)
        name = source.base.name
        for at, element in enumerate(targets):
            if not isinstance(element, Register):
                continue
            offset = source.base.offset + source.offset + at * size
            if name in self._offsets:
                known, most = self._parameters.get(self._offsets[name] + offset, (None, 0))
                value: Value | None = known
                if value is None or size > most:
                    value = self.terms.function(
                        "parameter",
                        (name, offset, size),
                        type_range(_is_signed(element, size, signed), 8 * size),
                    )
            else:
                value = registers.get(f"{STORED}{name}+{offset}")
                if value is None:
                    value = self._anything(element, name)
            registers[element.name] = self._extended(element, value, size, signed, path)

    def _store(self, i: Instruction, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]) -> None:
        space, count, size, _ = self._form(i)
        target, source = i.operands[0], i.operands[1]
        if space == "param":
            if isinstance(target, Address) and isinstance(target.base, Symbol):
                values = source.elements if isinstance(source, Vector) else (source,)
                for at, element in enumerate(values):
                    key = f"{STORED}{target.base.name}+{target.base.offset + target.offset + at * size}"
                    registers[key] = self._value(element, registers)
                return
            raise Unsupported("a parameter is written at a computed address", i)
        self._note(i, "write", space, self._address(target, registers, i), size * count, path, n, loops)

    def _atomic(self, i: Instruction, registers: Registers, path: Formula, n: int, loops: tuple[int, ...]) -> None:
        space, count, size, _ = self._form(i)
        where = i.operands[0] if i.opcode == "red" else i.operands[1]
        kind = "write" if "cta" in i.modifiers and space != "shared" else "atomic"
        self._note(i, kind, space, self._address(where, registers, i), size * count, path, n, loops)
        if i.opcode == "atom":
            self._havoc(i, registers)


def _is_signed(register: Register, size: int, signed: bool) -> bool:
    """Whether the bits of a load count as a signed number; in a register of their width, either is right."""
    return signed or (size == 4 and TYPES[register.type].bits <= 32)


def _line(i: Operation) -> int:
    return i.loc.line if i.loc is not None else i.line


def forks(cfg: Cfg) -> dict[int, int]:
    """By block where paths meet: the block where they have parted. All threads that leave the one reach the
    other, with no loop between them, so the condition to be there is the same."""
    before = dominators(cfg)
    after = control.postdominators(cfg)
    loops = {n: frozenset(k for k, loop in enumerate(cfg.loops) if n in loop.blocks) for n in cfg.order}
    place = {n: at for at, n in enumerate(cfg.order)}
    found = {}
    for n in cfg.order:
        if len(cfg.predecessors[n]) < 2 or any(loop.header == n for loop in cfg.loops):
            continue
        fork = before[n]
        at = fork
        while at not in (-1, n):
            at = after.get(at, -1)
        between = cfg.order[place[fork] : place[n]]
        if at == n and all(loops[other] == loops[n] for other in between):
            found[n] = fork
    return found


def dominators(cfg: Cfg) -> dict[int, int]:
    """The immediate dominator of each reachable block (Cooper, Harvey, Kennedy 2001)."""
    place = {n: at for at, n in enumerate(cfg.order)}
    first = cfg.order[0]
    found = {first: first}
    changed = True
    while changed:
        changed = False
        for n in cfg.order[1:]:
            known = [p for p in cfg.predecessors[n] if p in found]
            best = known[0]
            for p in known[1:]:
                a, b = best, p
                while a != b:
                    while place[a] > place[b]:
                        a = found[a]
                    while place[b] > place[a]:
                        b = found[b]
                best = a
            if found.get(n) != best:
                found[n] = best
                changed = True
    return found
