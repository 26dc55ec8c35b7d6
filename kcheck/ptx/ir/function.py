"""LLVM functions written in Python, with structured control flow; the runtime consists of them.

A :class:`Signature` names a function and its parameters. A :class:`FunctionBuilder` collects its body::

    f = FunctionBuilder(Signature("@kcheck.total", "i32", {"items": "ptr", "count": "i32"}))
    items = f.array("items", "i32")
    total = f.variable("i32", 0)
    with f.range(f.argument("count")) as i:
        with f.if_(items[i].ne(0)):
            total.value += items[i]
    f.ret(total.value)
    made = f.definition()

Python runs once and emits every instruction in the order in which it is written. ``with f.if_(…)`` emits both the
branch and the code that it guards; a Python ``if`` decides whether code is emitted. Values are :class:`Term`
objects, which have operators. Integers are unsigned, as in the records that they come from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.calls import call, operand
from kcheck.ptx.ir.flow import FlowBuilder, LoopLabels
from kcheck.ptx.ir.signature import Definition, Inlining, Signature
from kcheck.ptx.syntax.types import LLVM_BITS


class Term(Value):
    """A value of a function, with operators. Its operands are values, or integers of the same type."""

    __slots__ = ("code",)
    code: FunctionBuilder

    def __init__(self, code: FunctionBuilder, text: str, element: str, lanes: int = 1) -> None:
        super().__init__(text, element, lanes)
        object.__setattr__(self, "code", code)

    def _op(self, name: str, other: Value | int) -> Term:
        return self.code.term(self.code.op(name, self, self.code.operand(other, self.type)))

    def _compare(self, condition: str, other: Value | int) -> Term:
        return self.code.term(self.code.compare(condition, self, self.code.operand(other, self.type)))

    def __bool__(self) -> bool:
        raise TypeError("a value of the emitted function is not known yet; use if_ or select")

    def __add__(self, other: Value | int) -> Term:
        return self._op("add", other)

    def __sub__(self, other: Value | int) -> Term:
        return self._op("sub", other)

    def __mul__(self, other: Value | int) -> Term:
        return self._op("mul", other)

    def __floordiv__(self, other: Value | int) -> Term:
        return self._op("udiv", other)

    def __mod__(self, other: Value | int) -> Term:
        return self._op("urem", other)

    def __and__(self, other: Value | int) -> Term:
        return self._op("and", other)

    def __or__(self, other: Value | int) -> Term:
        return self._op("or", other)

    def __xor__(self, other: Value | int) -> Term:
        return self._op("xor", other)

    def __lshift__(self, other: Value | int) -> Term:
        return self._op("shl", other)

    def __rshift__(self, other: Value | int) -> Term:
        return self._op("lshr", other)

    def __invert__(self) -> Term:
        return self._op("xor", -1)

    def __lt__(self, other: Value | int) -> Term:
        return self._compare("ult", other)

    def __le__(self, other: Value | int) -> Term:
        return self._compare("ule", other)

    def __gt__(self, other: Value | int) -> Term:
        return self._compare("ugt", other)

    def __ge__(self, other: Value | int) -> Term:
        return self._compare("uge", other)

    def eq(self, other: Value | int) -> Term:
        """Whether both are equal, as i1."""
        return self._compare("eq", other)

    def ne(self, other: Value | int) -> Term:
        """Whether both differ, as i1."""
        return self._compare("ne", other)

    def to(self, element: str) -> Term:
        """An integer truncated or zero-extended; an address as an integer, or the reverse."""
        if self.type != element and "ptr" in (self.type, element):
            return self.code.term(self.code.cast("inttoptr" if element == "ptr" else "ptrtoint", self, element))
        return self.code.term(self.code.resize(self, element))

    def select(self, yes: Value | int, no: Value | int) -> Term:
        """``yes`` where this i1 is true, otherwise ``no``; at least one of them must be a Value."""
        element = yes.type if isinstance(yes, Value) else no.type if isinstance(no, Value) else ""
        code = self.code
        return code.term(Builder.select(code, self, code.operand(yes, element), code.operand(no, element)))


@dataclass(slots=True)
class LocalVariable:
    """A variable of a function: it lives in memory, which LLVM turns into registers."""

    code: FunctionBuilder
    element: str
    pointer: str
    lanes: int = 1

    @property
    def value(self) -> Term:
        """Its current value, which can be assigned."""
        return self.code.load(self.element, Value(self.pointer, "ptr"), lanes=self.lanes)

    @value.setter
    def value(self, value: Value | int) -> None:
        self.code.store(self.code.operand(value, self.element), Value(self.pointer, "ptr"))


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type in memory. ``array[i]`` loads one, ``array[i] = value`` stores one."""

    code: FunctionBuilder
    pointer: str
    element: str

    def at(self, index: Value | int) -> Term:
        """The address of an element; of several elements, if the index is a vector."""
        if isinstance(index, int) and index == 0:
            return Term(self.code, self.pointer, "ptr")
        index = self.code.operand(index, "i32")
        text = f"getelementptr {self.element}, ptr {self.pointer}, {self.code.typed(index)}"
        return self.code.value(text, "ptr", index.lanes)

    def __getitem__(self, index: Value | int) -> Term:
        return self.code.value(f"load {self.element}, ptr {self.at(index).text}", self.element)

    def __setitem__(self, index: Value | int, value: Value | int) -> None:
        value = self.code.operand(value, self.element)
        self.code.line(f"store {self.element} {value.text}, ptr {self.at(index).text}")


@dataclass
class FunctionBuilder(FlowBuilder):
    """The body of one function.

    Attributes:
        signature, inlining, attributes, exported: of the :class:`Definition`.
    """

    signature: Signature
    inlining: Inlining = ""
    width: int = 1
    declarations: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    attributes: str = ""
    exported: bool = False
    _allocations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.width, self.declarations, self.definitions)

    # --- text

    def value(self, text: str, element: str, lanes: int = 1) -> Term:
        """An instruction with a result."""
        return self.term(super().value(text, element, lanes))

    def definition(self) -> Definition:
        """Finish the function and return its definition."""
        if self.is_open:
            self.end("ret void" if self.signature.result == "void" else "unreachable")
        lines = ("entry:", *self._allocations, *self.lines)
        references = frozenset(self.references)
        return Definition(self.signature, lines, references, self.inlining, self.attributes, self.exported)

    # --- values

    def term(self, value: Value) -> Term:
        """A value with operators."""
        return value if isinstance(value, Term) else Term(self, value.text, value.type, value.lanes)

    def operand(self, value: Value | int, element: str) -> Value:
        """A value unchanged, or an integer as a constant of type ``element``."""
        return operand(self, value, element)

    def argument(self, name: str) -> Term:
        """A parameter, a scalar or a vector."""
        kind = self.signature.parameters[name]
        if not kind.startswith("<"):
            return Term(self, f"%{name}", kind)
        lanes, _, element = kind[1:-1].partition(" x ")
        return Term(self, f"%{name}", element, int(lanes))

    def array(self, pointer: str | Value, element: str) -> Array:
        """Elements at an address: a parameter's name, or a value."""
        if isinstance(pointer, Value):
            return Array(self, pointer.text, element)
        return Array(self, self.argument(pointer).text, element)

    def variable(self, element: str, first: Value | int) -> LocalVariable:
        """A new variable with its first value, and with as many lanes as this value."""
        lanes = first.lanes if isinstance(first, Value) else 1
        made = LocalVariable(self, element, self.local(vector_type(element, lanes)), lanes)
        made.value = first
        return made

    def zeros_of(self, element: str, count: Value) -> Array:
        """A new array of zeros on the stack, with a size known only at run time. Not for loops: each use
        allocates."""
        room = self.value(f"alloca {element}, {self.typed(count)}", "ptr")
        self.fill(room, 0, self.term(self.resize(count, "i64")) * (LLVM_BITS[element] // 8))
        return Array(self, room.text, element)

    def local(self, kind: str, align: int = 0) -> str:
        """Allocate stack memory for a value of an LLVM type; returns the name of the pointer."""
        name = "%" + self.fresh("room")
        self._allocations.append(f"  {name} = alloca {kind}" + (f", align {align}" if align else ""))
        return name

    def load(self, element: str, pointer: Value, align: int = 0, lanes: int = 1) -> Term:
        """The value at an address."""
        kind = vector_type(element, lanes)
        aligned = f", align {align}" if align else ""
        return self.value(f"load {kind}, ptr {pointer.text}{aligned}", element, lanes)

    def store(self, value: Value, pointer: Value, align: int = 0) -> None:
        """Store a value at an address."""
        aligned = f", align {align}" if align else ""
        self.line(f"store {self.typed(value)}, ptr {pointer.text}{aligned}")

    def load_monotonic(self, element: str, pointer: Value, align: int) -> Term:
        """The value at an address to which another thread may store concurrently."""
        return self.value(f"load atomic {element}, ptr {pointer.text} monotonic, align {align}", element)

    def store_monotonic(self, value: Value, pointer: Value, align: int) -> None:
        """Store a value at an address from which another thread may load concurrently."""
        self.line(f"store atomic {self.typed(value)}, ptr {pointer.text} monotonic, align {align}")

    def read_modify_write(
        self, operation: str, pointer: Value, value: Value, align: int, order: str = "acq_rel"
    ) -> Term:
        """One of LLVM's atomic operations on the value at an address; returns the old value."""
        text = f"atomicrmw {operation} ptr {pointer.text}, {self.typed(value)} {order}, align {align}"
        return self.value(text, value.type)

    def compare_exchange(self, pointer: Value, expected: Value, new: Value, align: int) -> tuple[Term, Term]:
        """Store a value if an address holds the expected one; returns the old value, and whether it was stored."""
        values = f"{self.typed(expected)}, {self.typed(new)}"
        pair = self.value(f"cmpxchg ptr {pointer.text}, {values} acq_rel acquire, align {align}", "pair")
        kind = f"{{ {expected.type}, i1 }}"
        found = self.value(f"extractvalue {kind} {pair.text}, 0", expected.type)
        return found, self.value(f"extractvalue {kind} {pair.text}, 1", "i1")

    def set_rounding(self, mode: int) -> None:
        """Set the rounding mode of this thread: 0 toward zero, 1 to nearest, 2 up, 3 down."""
        self.declarations["@llvm.set.rounding"] = "declare void @llvm.set.rounding(i32)"
        self.invoke("@llvm.set.rounding", "void", f"i32 {mode}", attributes="strictfp")

    def constrained(self, operation: str, suffix: str, element: str, arguments: Sequence[Value]) -> Term:
        """An operation in the rounding mode of this thread: LLVM's constrained intrinsic.

        Args:
            operation: its name, such as ``fadd``.
            suffix: the types in the name of the intrinsic.
            element: the element type of the result.
        """
        name, lanes = f"@llvm.experimental.constrained.{operation}.{suffix}", arguments[0].lanes
        out, kinds = vector_type(element, lanes), ", ".join(self.type_of(a) for a in arguments)
        self.declarations[name] = f"declare {out} {name}({kinds}, metadata, metadata)"
        given = ", ".join(self.typed(a) for a in arguments)
        modes = 'metadata !"round.dynamic", metadata !"fpexcept.ignore"'
        return self.term(self.invoke(name, out, f"{given}, {modes}", element, lanes, "strictfp"))

    def assembly(self, text: str) -> None:
        """Inline assembly without operands."""
        self.line(f'call void asm sideeffect "{text}", ""()')

    def offset(self, pointer: Value, distance: Value | int) -> Term:
        """An address plus ``distance`` bytes."""
        distance = self.operand(distance, "i64")
        return self.value(f"getelementptr i8, ptr {pointer.text}, {self.typed(distance)}", "ptr")

    def count_ones(self, x: Value) -> Term:
        """How many bits are set."""
        return self.term(self.intrinsic("ctpop", x))

    def trailing_zeros(self, x: Value) -> Term:
        """The number of the lowest bit that is set; the number of bits if none is set."""
        return self.term(self.flagged_intrinsic("cttz", x, False))

    def leading_zeros(self, x: Value) -> Term:
        """How many bits are above the highest one that is set."""
        return self.term(self.flagged_intrinsic("ctlz", x, False))

    def saturating_sub(self, x: Value, y: Value | int) -> Term:
        """The difference, or 0 if it would be negative."""
        return self.term(self.intrinsic("usub.sat", x, self.operand(y, x.type)))

    def rotate_right(self, x: Value, count: int) -> Term:
        """An integer with its bits rotated right by ``count``."""
        return self.term(self.intrinsic("fshr", x, x, self.const(x.type, count)) if count else x)

    def fill(self, pointer: Value, byte: int, count: Value | int) -> None:
        """Set ``count`` bytes."""
        name = "@llvm.memset.p0.i64"
        self.declarations[name] = f"declare void {name}(ptr, i8, i64, i1 immarg)"
        count = self.operand(count, "i64")
        self.invoke(name, "void", f"ptr {pointer.text}, i8 {byte}, {self.typed(count)}, i1 false")

    def copy(self, to: Value, source: Value, count: Value | int) -> None:
        """Copy ``count`` bytes between ranges that do not overlap."""
        name = "@llvm.memcpy.p0.p0.i64"
        self.declarations[name] = f"declare void {name}(ptr, ptr, i64, i1 immarg)"
        count = self.operand(count, "i64")
        self.invoke(name, "void", f"ptr {to.text}, ptr {source.text}, {self.typed(count)}, i1 false")

    # --- functions

    def run(self, function: Signature, /, **arguments: Value | int) -> Term:
        """Call a function of this module, as :func:`call` does."""
        return self.term(call(self, function, **arguments))

    # --- control flow

    def ret_group(self, values: Sequence[Value]) -> None:
        """Return several values: a :func:`group`."""
        kind, last = self.signature.result, "poison"
        for n, value in enumerate(values):
            last = self.value(f"insertvalue {kind} {last}, {self.typed(value)}, {n}", kind).text
        self.end(f"ret {kind} {last}")

    def ret(self, value: Value | int | None = None) -> None:
        """Return."""
        if value is None:
            self.end("ret void")
        else:
            self.end(f"ret {self.signature.result} {value if isinstance(value, int) else value.text}")

    @contextlib.contextmanager
    def range(self, count: Value | int, step: int = 1) -> Iterator[Term]:
        """Emit a loop over the numbers from 0, below ``count``, in steps of ``step``."""
        element = count.type if isinstance(count, Value) else "i32"
        head, loop = self.fresh("head"), LoopLabels(self.fresh("next"), self.fresh("after"))
        number = self.variable(element, 0)
        body = self.fresh("body")
        self.jump(head)
        self.label(head)
        i = number.value
        self.branch(i < count, body, loop.after)
        self.label(body)
        with self._pass_of(loop):
            yield i
        number.value = i + step
        self.jump(head)
        self.label(loop.after)

    @contextlib.contextmanager
    def _pass_of(self, loop: LoopLabels) -> Iterator[None]:
        """Emit the body of a loop. ``continue`` goes to what follows it."""
        self._loops.append(loop)
        yield
        self._loops.pop()
        self.jump(loop.again)
        self.label(loop.again)

    @contextlib.contextmanager
    def repeat(self, count: int, step: int = 1) -> Iterator[Term]:
        """Emit a loop over the numbers from 0, below ``count``, which is positive: one branch for each."""
        loop = LoopLabels(self.fresh("next"), self.fresh("after"))
        number, body = self.variable("i32", 0), self.fresh("body")
        self.jump(body)
        self.label(body)
        i = number.value
        with self._pass_of(loop):
            yield i
        number.value = i + step
        self.branch((i + step) < count, body, loop.after)
        self.label(loop.after)

    @contextlib.contextmanager
    def set_bits(self, bits: Value) -> Iterator[Term]:
        """Emit a loop over the numbers of the bits that are set in an i32, from the lowest."""
        left = self.variable("i32", bits)
        with self.loop():
            now = left.value
            with self.if_(now.eq(0)):
                self.break_()
            left.value = now & (now - 1)
            yield self.trailing_zeros(now)
