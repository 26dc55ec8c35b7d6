"""``ld`` and ``st`` in every state space. Source: PTX ISA, "Data Movement and Conversion: ld, st"."""

from __future__ import annotations

from itertools import zip_longest

from kcheck.ptx.abi import FaultKind, Launch
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.masked import masked_gather, masked_scatter
from kcheck.ptx.isa import admitted as unchecked
from kcheck.ptx.isa.access_form import AccessForm, elements, form, is_of_elements
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.events import Access, Carrier, Companion
from kcheck.ptx.isa.prefetching import fetch_ahead, fetch_row_ahead
from kcheck.ptx.isa.surroundings import AdmittedLanes, Surroundings
from kcheck.ptx.syntax.ast import Address, Instruction, Operand, Register, Symbol
from kcheck.ptx.syntax.types import TYPES, PtxType


@effect("ld", "ldu")
def ld(fn: Surroundings, i: Instruction) -> None:
    """A load; into a register wider than the type, the value is sign- or zero-extended."""
    ordered(fn, i, 2)
    f = form(fn, i)
    targets = elements(fn, i, i.operands[0], f.count)
    if fn.interleaved is not None and fn.interleaved.includes(i):
        fn.write(i, targets[0], f.kind, fn.interleaved.load(fn.b, i), True)
        return
    companions: list[Companion] = []
    lanes = fn.admitted(i, i.operands[1])
    first = None if lanes is not None else _in_steps(fn, i, i.operands[1], f)
    if f.space == "param":
        values = _load_param(fn, i, f, companions)
    elif lanes is not None:
        values = [unchecked.load(fn, lanes, f.kind)]
    elif id(i) in fn.inside:
        low = fn.address(i, i.operands[1], f.space) if first is None else first[0]
        values = [unchecked.load(fn, AdmittedLanes(low, 0 if first is None else first[1], True, False), f.kind)]
    elif first is not None:
        low, stride = first
        if fn.in_affine_loop and f.space in ("global", "generic") and stride == f.kind.bytes:
            fetch_row_ahead(fn, low, fn.width * stride)
        values = [_load_row(fn, i, f, first, companions)]
    else:
        address = fn.address(i, i.operands[1], f.space)
        values = load_values(fn, i, address, f, _wanted(fn, targets), companions, fn.within_word(i.operands[1]))
    for target, value in zip(targets, values, strict=True):
        fn.write(i, target, f.kind, value, True)
    if fn.carrier is not None:
        for target, companion in zip_longest(targets, companions):
            fn.carrier.arrives(i, target, companion, f.kind.kind == "signed")


def _in_steps(fn: Surroundings, i: Instruction, operand: Operand, f: AccessForm) -> tuple[Value, int] | None:
    """The address of the first lane's element, and the stride between lanes in bytes; None if the stride is
    unknown or not the same for all lanes."""
    if not is_of_elements(f):
        return None
    return fn.first_address(i, operand, f.space, f.kind.bytes)


def _load_row(
    fn: Surroundings, i: Instruction, f: AccessForm, row: tuple[Value, int], companions: list[Companion]
) -> Value:
    """A load in the active lanes.

    Args:
        row: the first lane's address, and the stride between lanes in bytes.
        companions: with a carrier, gets the companion of the value.
    """
    b, (low, stride) = fn.b, row
    site = fn.unit.site(i, f.space)
    for observer in fn.observers:
        observer.accesses_row(i, Access(low, f.space, f.kind, site), stride)
    carrier = _follower(fn, i, f)
    name = fn.unit.row_access(False, f.kind.llvm, f.space, stride, carrier is not None)
    slot = "" if carrier is None else carrier.slot(f.kind.llvm, fn.width)
    room = "" if carrier is None else f"ptr {slot}, "
    given = f"{b.typed(low)}, {room}{b.typed(b.splat(fn.active))}, {fn.access_context(site)}"
    value = b.invoke(name, vector_type(f.kind.llvm, fn.width), given, f.kind.llvm, fn.width)
    if carrier is not None:
        steps = b.lanes_const("i64", [n * stride for n in range(fn.width)])
        access = Access(b.add(low, steps), f.space, f.kind, site)
        companions.append(carrier.fetched(i, access, slot, fn.width))
    return value


def _follower(fn: Surroundings, i: Instruction, f: AccessForm) -> Carrier | None:
    """The carrier, if the value that is loaded may have a companion."""
    return fn.carrier if fn.carrier is not None and f.space != "const" and fn.carrier.follows(i) else None


def _wanted(fn: Surroundings, targets: tuple[Operand, ...]) -> int:
    """How many of the elements are used: compilers fill a gap at the end of a vector with unused elements."""
    used = [k for k, t in enumerate(targets) if isinstance(t, Register) and t.name not in fn.unread]
    return max(used, default=0) + 1


def load_values(
    fn: Surroundings,
    i: Instruction,
    address: Value,
    f: AccessForm,
    wanted: int | None,
    companions: list[Companion],
    within: Value | None = None,
) -> list[Value]:
    """The elements at an address in each active lane; those from number ``wanted`` on are 0 and not accessed.

    Args:
        companions: with a carrier, filled with the companion of each element that is accessed.
        within: the address of the byte to check, instead of the whole word at ``address``.
    """
    b, unit = fn.b, fn.unit
    element = f.kind.llvm
    site = unit.site(i, f.space)
    count = f.count if wanted is None else wanted
    for observer in fn.observers:
        observer.accesses(i, Access(address, f.space, f.kind, site, count))
    # The guard of a load may hold in no lane; then memory must not be accessed.
    scalar = address.lanes == 1 and (fn.width == 1 or i.guard is None)
    carrier = _follower(fn, i, f)
    if f.count == 1 and within is None and not (fn.width == 1 and i.guard is not None):
        stream = None if scalar or address.lanes == 1 or carrier is not None else fn.stream(i)
        if stream is None:
            name = unit.access(False, element, f.space, scalar, carrier is not None)
        else:
            name = unit.stream_access(element, f.space)
        if scalar:
            given, lanes = b.typed(fn.first_active()), 1
        else:
            if address.lanes > 1 and fn.in_loop and f.space in ("global", "generic"):
                fetch_ahead(fn, address)
            address, given, lanes = b.splat(address), b.typed(b.splat(fn.active)), fn.width
        slot = ""
        if carrier is not None:
            slot = carrier.slot(element, lanes)
            given = f"ptr {slot}, {given}" if scalar else f"{given}, ptr {slot}"
        kind = vector_type(element, lanes)
        given = f"{b.typed(address)}, {given}, {fn.access_context(site)}"
        if stream is not None:
            given += f", ptr {stream}"
        value = b.invoke(name, kind, given, element, lanes, "" if scalar else fn.inlining)
        if carrier is not None:
            companions.append(carrier.fetched(i, Access(address, f.space, f.kind, site), slot, lanes))
        return [value]
    guarded = fn.width == 1 and i.guard is not None
    count = f.count if guarded else count
    size = f.kind.bytes * f.count
    checked, size, extent = (address, size, f.kind.bytes * count) if within is None else (within, 1, 1)
    mask = admitted(fn, checked, f.space, FaultKind.OUT_OF_BOUNDS_LOAD, size, site, extent)
    if address.lanes == 1 and fn.width > 1:
        address = b.splat(address)
    loaded = []
    for n in range(count):
        at = b.add(address, n * f.kind.bytes) if n or guarded else address
        loaded.append(unchecked_load(fn, at, mask, f.kind))
        if carrier is not None:
            companions.append(carrier.fetch(i, Access(at, f.space, f.kind, site), mask))
    return loaded + [b.const(element, 0)] * (f.count - count)


def admitted(
    fn: Surroundings,
    address: Value,
    space: str,
    kind: FaultKind,
    size: int,
    site: int,
    extent: int | None = None,
) -> Value:
    """The active lanes whose ``extent`` (or ``size``) bytes may be accessed; each of the others records a fault.

    An address that is not a multiple of ``size`` is a fault, too.
    """
    b = fn.b
    name = fn.unit.admit(space, kind, size, extent)
    address, mask = b.splat(address), b.splat(fn.active)
    given = f"{b.typed(address)}, {b.typed(mask)}, {fn.access_context(site)}"
    return b.invoke(name, b.type_of(mask), given, "i1", fn.width)


def unchecked_load(fn: Surroundings, address: Value, mask: Value, kind: PtxType) -> Value:
    """The element at an address in the lanes of a mask; 0 in the others."""
    b = fn.b
    if fn.width == 1:
        slot = f"%{b.fresh('ldslot')}"
        fn.prologue.line(f"{slot} = alloca {kind.llvm}")
        zero = "0.0" if kind.llvm in ("half", "float", "double") else "0"
        b.line(f"store {kind.llvm} {zero}, ptr {slot}")
        with b.when(mask):
            pointer = b.value(f"inttoptr i64 {address.text} to ptr", "ptr")
            loaded = b.value(f"load {kind.llvm}, ptr {pointer.text}, align {kind.bytes}", kind.llvm)
            b.line(f"store {kind.llvm} {loaded.text}, ptr {slot}")
        return b.value(f"load {kind.llvm}, ptr {slot}", kind.llvm)
    return masked_gather(b, kind.llvm, address, kind.bytes, mask)


@effect("st")
def st(fn: Surroundings, i: Instruction) -> None:
    """A store; of a register wider than the type, the low bits."""
    ordered(fn, i, 2)
    f = form(fn, i)
    sources = elements(fn, i, i.operands[1], f.count)
    values = [fn.read(i, source, f.kind, relaxed=True) for source in sources]
    if f.space == "param":
        _store_param(fn, i, f, values, sources)
        return
    if fn.interleaved is not None and fn.interleaved.includes(i):
        fn.interleaved.store(fn.b, i, values[0])
        return
    lanes = fn.admitted(i, i.operands[0])
    if lanes is not None:
        access = Access(lanes.first, f.space, f.kind, fn.unit.site(i, f.space))
        for observer in fn.observers:
            observer.accesses_row(i, access, lanes.step, values)
        unchecked.store(fn, lanes, values[0], f.kind)
        return
    first = _in_steps(fn, i, i.operands[0], f)
    if first is not None:
        low, stride = first
        site = fn.unit.site(i, f.space)
        for observer in fn.observers:
            observer.accesses_row(i, Access(low, f.space, f.kind, site), stride, values)
        companions = _stored(fn, i, sources, f, low, stride)
        name = fn.unit.row_access(True, f.kind.llvm, f.space, stride, bool(companions))
        given = [low, *(fn.b.splat(value) for value in (values[0], *companions, fn.active))]
        fn.b.invoke(name, "void", f"{', '.join(map(fn.b.typed, given))}, {fn.access_context(site)}")
        return
    address = fn.address(i, i.operands[0], f.space)
    store_values(fn, i, address, f, values, _stored(fn, i, sources, f, address))


def _stored(
    fn: Surroundings,
    i: Instruction,
    sources: tuple[Operand, ...],
    f: AccessForm,
    address: Value,
    step: Value | int | None = None,
) -> list[Value]:
    """With a carrier, the companions to store from an address on; ``step``: see :meth:`Carrier.stored`."""
    if fn.carrier is None:
        return []
    found, site = [], fn.unit.site(i, f.space)
    for n, source in enumerate(sources):
        at = fn.b.add(address, n * f.kind.bytes) if n else address
        found.append(fn.carrier.stored(i, source, Access(at, f.space, f.kind, site), step))
    return found


def store_values(
    fn: Surroundings, i: Instruction, address: Value, f: AccessForm, values: list[Value], companions: list[Value]
) -> None:
    """Store the elements in each active lane, and with a carrier their companions."""
    b, unit = fn.b, fn.unit
    element = f.kind.llvm
    site = unit.site(i, f.space)
    for observer in fn.observers:
        observer.accesses(i, Access(address, f.space, f.kind, site, f.count), values)
    if f.count == 1 and not (fn.width == 1 and i.guard is not None):
        value = values[0]
        scalar = fn.width == 1 or (
            address.lanes == 1 and value.lanes == 1 and i.guard is None and all(c.lanes == 1 for c in companions)
        )
        name = unit.access(True, element, f.space, scalar, bool(companions))
        given = [address, value, *companions, fn.first_active() if scalar else fn.active]
        if not scalar:
            given = [b.splat(v) for v in given]
        arguments = f"{', '.join(map(b.typed, given))}, {fn.access_context(site)}"
        b.invoke(name, "void", arguments, attributes="" if scalar else fn.inlining)
        return
    size = f.kind.bytes * f.count
    mask = admitted(fn, address, f.space, FaultKind.OUT_OF_BOUNDS_STORE, size, site)
    if fn.width > 1:
        address = b.splat(address)
    for n, value in enumerate(values):
        at = b.add(address, n * f.kind.bytes) if n else address
        unchecked_store(fn, at, value, mask, f.kind)
        if fn.carrier is not None:
            fn.carrier.store(f.space, at, companions[n], mask, site)


def unchecked_store(fn: Surroundings, address: Value, value: Value, mask: Value, kind: PtxType) -> None:
    """Store an element in the lanes of a mask."""
    b = fn.b
    if fn.width == 1:
        with b.when(mask):
            pointer = b.value(f"inttoptr i64 {address.text} to ptr", "ptr")
            b.line(f"store {b.typed(value)}, ptr {pointer.text}, align {kind.bytes}")
        return
    masked_scatter(b, b.splat(value), address, kind.bytes, mask)


# The .param space: a kernel's parameters are in one block of memory, the same for all lanes. Those of a function,
# and the arguments of a call, are arrays in which a value of n bytes at offset o has its W lanes at W * o.


def _param_place(fn: Surroundings, i: Instruction, operand: Operand, f: AccessForm) -> tuple[str, int]:
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        raise fn.fail(i, "expected the name of a parameter in brackets")
    offset = operand.base.offset + operand.offset
    name = operand.base.name
    variable = fn.function.variables.get(name)
    if variable is None:
        for candidate in (*fn.function.params, *fn.function.returns):
            if candidate.name == name:
                variable = candidate
    if variable is None or variable.space != "param" or variable.count is None:
        raise fn.fail(i, f"{name} is not a parameter")
    size = variable.count * TYPES[variable.type].bytes
    if offset < 0 or offset + f.kind.bytes * f.count > size or offset % f.kind.bytes:
        raise fn.fail(i, f"bytes {offset} to {offset + f.kind.bytes * f.count} of {name}, which has {size} bytes")
    return name, offset


def load_parameter(fn: Surroundings, i: Instruction) -> Value:
    """The element that a scalar load from a kernel's parameter returns."""
    return _load_param(fn, i, form(fn, i), [])[0]


def _load_param(fn: Surroundings, i: Instruction, f: AccessForm, companions: list[Companion]) -> list[Value]:
    b = fn.b
    element = f.kind.llvm
    address = i.operands[1]
    if isinstance(address, Address) and isinstance(address.base, Register):
        where = fn.address(i, address, "generic")
        return load_values(fn, i, where, AccessForm("generic", f.kind, f.count), None, companions)
    name, offset = _param_place(fn, i, address, f)
    values = []
    for n in range(f.count):
        at = offset + n * f.kind.bytes
        if fn.function.is_entry and name in fn.param_offsets:
            params = fn.field(Launch, Launch.params, element="ptr")
            pointer = b.value(f"getelementptr i8, ptr {params.text}, i64 {fn.param_offsets[name] + at}", "ptr")
            text = f"load {element}, ptr {pointer.text}, align {f.kind.bytes}, !invariant.load !1"
            values.append(b.value(text, element))
        else:
            pointer = _param_pointer(fn, name, at)
            text = f"load {vector_type(element, fn.width)}, ptr {pointer.text}, align {f.kind.bytes}"
            values.append(b.value(text, element, fn.width))
            if fn.carrier is not None:
                companions.append(fn.carrier.passed(name, at, f.kind))
    return values


def _store_param(
    fn: Surroundings, i: Instruction, f: AccessForm, values: list[Value], sources: tuple[Operand, ...]
) -> None:
    """Store an argument of a call or a returned value; other lanes keep their values."""
    b = fn.b
    name, offset = _param_place(fn, i, i.operands[0], f)
    if fn.function.is_entry and name in fn.param_offsets:
        raise fn.fail(i, f"{name} is a parameter of a kernel, which is read-only")
    for n, value in enumerate(values):
        pointer = _param_pointer(fn, name, offset + n * f.kind.bytes)
        kind = vector_type(f.kind.llvm, fn.width)
        old = b.value(f"load {kind}, ptr {pointer.text}, align {f.kind.bytes}", f.kind.llvm, fn.width)
        value = b.select(fn.active, b.splat(value), old)
        b.line(f"store {b.typed(value)}, ptr {pointer.text}, align {f.kind.bytes}")
        if fn.carrier is not None:
            fn.carrier.passes(name, offset + n * f.kind.bytes, f.kind, sources[n])


def _param_pointer(fn: Surroundings, name: str, offset: int) -> Value:
    return fn.b.value(f"getelementptr i8, ptr {fn.param_array(name)}, i64 {offset * fn.width}", "ptr")
