"""The syntax tree of a PTX module: frozen nodes, each with its line.

Registers and variables are resolved: two declarations of one name in different ``{}`` scopes have different
``name`` here, so that a function's registers form one flat table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.ptx.syntax.dwarf import DebugVariable


@dataclass(frozen=True, slots=True)
class Register:
    """A register. ``type`` as declared, without the dot: ``pred``, ``b32``, ``f64``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without its ``%``: ``tid.x``, ``laneid``. ``WARP_SZ`` is one too."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal; negative if written with a minus."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point literal: ``bits`` of a binary format of ``width`` 32 (``0f``) or 64 (``0d``, decimal)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter, function or label, plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; offset in bytes."""

    base: Register | Symbol | Integer
    offset: int


@dataclass(frozen=True, slots=True)
class Texel:
    """``[object, {coordinates}]``: a place in a texture or a surface."""

    object: Register
    coordinates: Vector


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``, the two results of ``setp`` or ``shfl``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``, a predicate operand negated."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``, a discarded result."""


@dataclass(frozen=True, slots=True)
class Selected:
    """``%r1.b0``: bytes or halves of an operand of a video instruction. A finished tree has none: see
    :mod:`kcheck.ptx.syntax.selectors`."""

    register: Register
    selector: str


@dataclass(frozen=True, slots=True)
class Negated:
    """``-%r1`` or ``-%r1.b0``: a source of ``vmad``. A finished tree has none: see
    :mod:`kcheck.ptx.syntax.selectors`."""

    operand: Register | Selected


Operand: TypeAlias = (
    "Register | Special | Integer | Float | Symbol | Address | Texel | Vector | Pair | Not | Sink "
    "| Selected | Negated"
)


@dataclass(frozen=True, slots=True)
class Loc:
    """A ``.loc``: the source of the instructions that follow. ``file`` is a ``.file`` number.

    Attributes:
        caller: the call, for code of an inlined function; its own ``caller`` is the next call outward.
        is_near: the compiler gives no line, and this is that of the code before, from which a jump may lead away.
    """

    file: int
    line: int
    column: int
    caller: Loc | None = None
    is_near: bool = False

    @property
    def chain(self) -> tuple[Loc, ...]:
        """This place and the calls that lead to it, innermost first."""
        found = [self]
        while found[-1].caller is not None:
            found.append(found[-1].caller)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!p opcode.modifier... operands``.

    Attributes:
        modifiers: without their dots.
        guard: the predicate, and ``negated`` for ``@!p``.
        loc: the place in the source, if any ``.loc`` came before.
        effects: the registers that it writes and reads, once :mod:`kcheck.ptx.analysis.liveness` has found them.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None = None
    negated: bool = False
    loc: Loc | None = None
    effects: list[tuple[Register, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def mnemonic(self) -> str:
        """``ld.global.f32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Call:
    """``call (returns), target, (arguments), prototype``. ``target`` is a register for an indirect call;
    ``effects`` as for an :class:`Instruction`."""

    line: int
    target: Symbol | Register
    returns: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    prototype: str | None
    guard: Register | None = None
    negated: bool = False
    loc: Loc | None = None
    effects: list[tuple[Register, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def mnemonic(self) -> str:
        """Its name in findings."""
        return f"call {self.target.name}"


@dataclass(frozen=True, slots=True)
class Label:
    """A label; unique in its function."""

    line: int
    name: str


Operation: TypeAlias = Instruction | Call
"""What a thread executes."""

Statement: TypeAlias = Instruction | Call | Label


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration in a state space.

    Attributes:
        space: ``global``, ``const``, ``shared``, ``local``, ``param``.
        type: of an element, such as ``b8``.
        count: elements; None for an array of open size (dynamic shared memory).
        align: in bytes.
        linkage: ``""``, ``visible``, ``weak``, ``extern``, ``common``.
        initial: elements, flattened in order; the rest is 0.
        pointer: of a parameter with ``.ptr``: the space that it points to, empty if that is not given.
    """

    line: int
    space: str
    name: str
    type: str
    count: int | None
    align: int
    linkage: str = ""
    initial: tuple[Integer | Float | Symbol, ...] = ()
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Prototype:
    """A ``.callprototype``: the signature of an indirect call."""

    line: int
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A ``.entry`` or ``.func``.

    Attributes:
        body: None for a declaration.
        registers: type by (resolved) name.
        variables: those declared in the body, by (resolved) name; ``param`` ones carry call arguments.
        branch_targets: labels, by the name of their ``.branchtargets``.
        performance: directives such as ``.maxntid``, by name without the dot.
        rests: lines of the first instructions of loops marked ``.pragma "nounroll"``: each is the remainder of a
            loop that NVVM has unrolled, and has at most a few iterations.
    """

    line: int
    is_entry: bool
    name: str
    linkage: str
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    body: tuple[Statement, ...] | None
    registers: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: Mapping[str, Prototype] = field(default_factory=dict)
    performance: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rests: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module.

    Attributes:
        file: its name in messages.
        replicates: several threads may load, and lanes of a warp may store, copies of one value (REPLICATES).
        locals: the variables in the frames of functions, if the module has debug information.
        reached: by kernel, the functions that it may call, once :mod:`kcheck.ptx.analysis.kernel_facts` has found
            them.
    """

    file: str
    version: str
    target: tuple[str, ...]
    address_size: int
    files: Mapping[int, str]
    variables: Mapping[str, Variable]
    functions: Mapping[str, Function]
    replicates: bool = False
    locals: tuple[DebugVariable, ...] = ()
    reached: dict[str, tuple[Function, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels, in the order of the file."""
        return tuple(f for f in self.functions.values() if f.is_entry)
