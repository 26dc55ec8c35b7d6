"""Finds accesses that are not what they seem: volatile ones, guesses of a compare-and-swap, and atomics that take
a lock without acquiring.

``volatile`` makes the compiler keep an access; it neither orders it with accesses of other words nor makes
another thread wait (CUDA C++ Programming Guide, "Volatile Qualifier"). So two threads that exchange data through
volatile accesses need a barrier like any others. Two uses need none: a flag that a thread polls until another
thread has written it, and a word that is also updated atomically, such as a lock. So volatile accesses stay
strong, as all are to the PTX ISA, if the array is polled by a waiting loop of the kernel or has atomics.

A plain load may guess the word that a loop then compares and swaps (CUDA C++ Programming Guide, "Atomic
Functions")::

    old = *p;
    do { assumed = old; old = atomicCAS(p, assumed, f(assumed)); } while (assumed != old);

Whatever it reads, the swap checks it. So it counts as strong: it races with a plain store, but not with atomics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcheck.ptx.analysis.cfg import build
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.shared_arrays import arrays_of_accesses
from kcheck.ptx.analysis.spin import may_spin, polling_loads
from kcheck.ptx.sanitizers.race.facts import CHECKED, space_of
from kcheck.ptx.sanitizers.race.pointers import PointerOrigins
from kcheck.ptx.sanitizers.race.updates import address_of, setters_of
from kcheck.ptx.syntax.ast import Address, Function, Instruction, Module, Operand, Register, Symbol
from kcheck.ptx.syntax.opcodes import ACCESSES, ATOMICS, MOVES

_Array = tuple[str, object]
"""A state space, and an array in it; None for an array that is not known."""


def strengths(functions: Iterable[Function], module: Module) -> Mapping[int, bool]:
    """Accesses of a kernel and what it calls (by ``id``) that are strong, or are not, although no modifier says
    so: False for volatile ones that are judged like plain ones, True for guesses of a compare-and-swap."""
    functions = list(functions)
    weak = dict.fromkeys(_weak_accesses(functions, module), False)
    return weak | dict.fromkeys((load for f in functions for load in _guesses(f, module.file)), True)


def _guesses(function: Function, file: str) -> Iterable[int]:
    """The plain loads (by ``id``) of a word that is compared with what was loaded and swapped, and again if it was
    not equal: what the swap found is compared with the word next, or decides about another round of the loop."""
    body = [s for s in function.body or () if isinstance(s, Instruction)]
    swaps = [i for i in body if "cas" in i.modifiers]
    if not swaps:
        return
    setters = setters_of(body)
    guesses = {id(swap): list(_copied(swap.operands[-2], setters)) for swap in swaps}
    repeated = {id(i) for swap in swaps for i in guesses[id(swap)] if _same_word(i, swap, setters)}
    tested = {r.name for i in body if i.opcode == "setp" for r in reads(i)}
    graph = build(function, file)
    loops = [{id(o) for n in loop.blocks for o in graph.blocks[n].operations} for loop in graph.loops]
    for swap in swaps:
        decides = not tested.isdisjoint(r.name for r in writes(swap))
        for load in guesses[id(swap)]:
            if load.opcode != "ld" or not _same_word(load, swap, setters):
                continue
            if id(swap) in repeated or (decides and any({id(load), id(swap)} <= loop for loop in loops)):
                yield id(load)


def _copied(value: Operand, setters: Mapping[str, Sequence[Instruction]]) -> Iterable[Instruction]:
    """The instructions whose result a value is, on any path, perhaps copied."""
    left, seen = [value], set[str]()
    while left:
        value = left.pop()
        if isinstance(value, Register) and value.name not in seen:
            seen.add(value.name)
            for setter in setters.get(value.name, ()):
                if setter.opcode == "mov":
                    left.extend(setter.operands[1:])
                else:
                    yield setter


def _same_word(one: Instruction, other: Instruction, setters: Mapping[str, Sequence[Instruction]]) -> bool:
    """Whether two accesses have equal addresses, one of them perhaps generic."""
    places = (address_of(one), address_of(other))
    return None not in places and len({_sum(place, setters) for place in places}) == 1


def _sum(value: object, setters: Mapping[str, Sequence[Instruction]], depth: int = 8) -> object:
    """How an address is computed, whatever the registers are called; each is set once, or stands for itself."""
    if isinstance(value, Address):
        return _sum(value.base, setters, depth), value.offset
    if not isinstance(value, Register) or len(setters.get(value.name, ())) != 1 or not depth:
        return value
    (setter,) = setters[value.name]
    if setter.guard is not None or setter.opcode not in ("mov", "cvta", "add", "mul", "mad", "shl", "cvt", "ld"):
        return value
    if setter.opcode == "ld" and "param" not in setter.modifiers:
        return value
    parts = tuple(_sum(operand, setters, depth - 1) for operand in setter.operands[1:])
    return parts[0] if setter.opcode in MOVES else (setter.opcode, setter.modifiers, parts)


def _weak_accesses(functions: Sequence[Function], module: Module) -> frozenset[int]:
    """The volatile loads and stores (by ``id``) that are judged like plain ones."""
    every = [i for f in functions for i in f.body or () if isinstance(i, Instruction) and i.opcode in ACCESSES]
    found = [i for i in every if i.opcode not in ATOMICS and "volatile" in i.modifiers]
    if not found:
        return frozenset()
    polls = {load for f in functions if f.body for load in polling_loads(build(f, module.file))}
    scopes = [module.variables, *(f.variables for f in functions)]
    shared = {name for scope in scopes for name, variable in scope.items() if variable.space == "shared"}
    names = {id(access): name for access, name in arrays_of_accesses(functions, shared)}
    origins = PointerOrigins(functions[0])

    def arrays(i: Instruction) -> list[_Array]:
        if id(i) in names:
            return [("shared", names[id(i)])]
        base = next(o for o in i.operands if isinstance(o, Address)).base
        spaces = CHECKED if space_of(i) == "generic" else (space_of(i),)
        known = base.name if isinstance(base, Symbol) else origins.of(base, frozenset())
        return [(space, known if space == "global" else None) for space in spaces]

    strong = {array for i in every if i.opcode in ATOMICS or id(i) in polls for array in arrays(i)}
    return frozenset(id(i) for i in found if not any(_may_be(array, strong) for array in arrays(i)))


def waiting_atomics(functions: Iterable[Function], file: str) -> frozenset[int]:
    """The atomics (by ``id``) with which a loop waits until it has a lock, and which do not acquire by
    themselves."""
    found: set[int] = set()
    for function in functions:
        body = [s for s in function.body or () if isinstance(s, Instruction)]
        if any(_takes_lock(i) for i in body):
            graph = build(function, file)
            waits = may_spin(graph)
            inside = {n for loop in graph.loops if loop.header in waits for n in loop.blocks}
            operations = (o for n in inside for o in graph.blocks[n].operations)
            found.update(id(o) for o in operations if isinstance(o, Instruction) and _takes_lock(o))
    return frozenset(found)


def _takes_lock(i: Instruction) -> bool:
    """Whether it is a compare-and-swap or an exchange without ``.acquire``."""
    words = set(i.modifiers)
    return i.opcode == "atom" and bool(words & {"cas", "exch"}) and not words & {"acquire", "acq_rel"}


def _may_be(array: _Array, others: set[_Array]) -> bool:
    """Whether an array may be one of several others."""
    space, name = array
    return any(space == other and (name is None or known is None or name == known) for other, known in others)
