"""``tex``, ``tld4``, ``txq``, ``suq``: textures, by the handle of an object.

Source: PTX ISA, "Texture Instructions". :mod:`kcheck.ptx.runtime.textures` computes what a lane fetches, for one
lane after another. For surfaces see :mod:`kcheck.ptx.isa.surfaces`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import LIKELY, FlowBuilder
from kcheck.ptx.isa.access_form import elements
from kcheck.ptx.isa.effects import effect, without_policy
from kcheck.ptx.isa.events import Access, Companion
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.runtime import surfaces, textures
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.runtime.textures import CORNERS, FETCH, GATHER, INTEGER, LAYER, QUERY, WORDS
from kcheck.ptx.syntax.ast import Address, Instruction, Operand, Register, Texel, Vector
from kcheck.ptx.syntax.types import TYPES, PtxType

_B8, _U32, _S32, _F32, _B64 = (TYPES[name] for name in ("b8", "u32", "s32", "f32", "b64"))
_GEOMETRIES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1 | LAYER, "a2d": 2 | LAYER}
_RESULTS = frozenset({"u32", "s32", "f32"})
_COMPONENTS = ("r", "g", "b", "a")


@dataclass(frozen=True, slots=True)
class TexelPlace:
    """Where an instruction accesses an object: ``form`` as the runtime expects it, coordinates as 32-bit words."""

    texel: Texel
    form: int
    words: tuple[Value, ...]


def geometry(fn: Surroundings, i: Instruction, name: str) -> int:
    """The runtime's ``form`` of a geometry: ``1d``, ``2d``, ``3d``, ``a1d`` or ``a2d``.

    Raises:
        PtxError: an unsupported geometry.
    """
    if name not in _GEOMETRIES:
        what = {"cube": "cubemaps are", "acube": "cubemaps are"}.get(name, f".{name} is")
        raise fn.fail(i, f"{what} not supported; use a texture of one to three dimensions, or layers")
    return _GEOMETRIES[name]


def texel_place(fn: Surroundings, i: Instruction, operand: Operand, form: int, kind: PtxType) -> TexelPlace:
    """Read the coordinates, and announce them as an address.

    Args:
        kind: of a coordinate; a layer is an integer.
    """
    if not isinstance(operand, Texel):
        raise fn.fail(i, "expected an object and coordinates in brackets")
    count = (form & 3) + (1 if form & LAYER else 0)
    given = operand.coordinates.elements
    if len(given) not in ((count,) if count < 3 else (count, 4)):
        raise fn.fail(i, f"expected {count} coordinates, found {len(given)}")
    for observer in fn.observers:
        observer.addresses(i, operand)
    words = []
    for number, element in enumerate(given[:count]):
        is_layer = number == 0 and form & LAYER
        words.append(fn.b.as_integer(fn.read(i, element, _U32 if is_layer else kind)))
    return TexelPlace(operand, form, tuple(words))


def _define(fn: Surroundings) -> None:
    """Add the runtime's functions to the module."""
    if FETCH.name not in fn.unit.definitions:
        found = textures.definitions(fn.carrier is not None, fn.unit.declarations)
        found |= surfaces.definitions(fn.unit.declarations)
        fn.unit.definitions.update(found)


def room_for(fn: Surroundings, kind: str, lanes: int) -> str:
    """Allocate stack memory for ``lanes`` values in the prologue; returns the name of the pointer."""
    name = f"%{fn.b.fresh('room')}"
    fn.prologue.line(f"{name} = alloca [{lanes} x {kind}], align 64")
    return name


def each_lane(fn: Surroundings, place: TexelPlace, act: Callable[[Value, Value, Value], None]) -> None:
    """Emit ``act(lane, handle, coordinates)`` for each active lane; ``coordinates``: the address of four words."""
    b, W = fn.b, fn.width
    _define(fn)
    handle = b.splat(fn.read(_READING, place.texel.object, _B64))
    words = [b.splat(word) for word in place.words]
    room, number = room_for(fn, "i32", 4), room_for(fn, "i32", 1)
    mask = b.splat(fn.active)
    b.line(f"store i32 0, ptr {number}")
    with b.loop():
        lane = b.value(f"load i32, ptr {number}", "i32")
        with b.when(b.extract(mask, lane)):
            for n, word in enumerate(words):
                at = b.value(f"getelementptr i32, ptr {room}, i32 {n}", "ptr")
                b.line(f"store {b.typed(b.extract(word, lane))}, ptr {at.text}")
            act(lane, b.extract(handle, lane), Value(room, "ptr"))
        after = b.add(lane, 1)
        b.line(f"store {b.typed(after)}, ptr {number}")
        with b.unless(b.compare("ult", after, W)):
            b.break_()


_READING = Instruction(0, "tex", (), ())


def check_handle(b: FlowBuilder, found: Value, handle: Value, lane: Value, site: int, size: int) -> None:
    """Report a handle that is not an object's. ``size``: 0 for a texture, 1 for a surface."""
    with b.unless(found, LIKELY):
        report_fault(b, FaultKind.TEXTURE_HANDLE, site, address=handle, size=size, lane=lane)


@effect("tex", "tld4")
def tex(fn: Surroundings, i: Instruction) -> None:
    """``tex{.base|.level|.grad}.geom.v4.dtype.ctype d, [a, c]``; ``tld4.comp.2d.v4.dtype.f32 d, [a, c]``.

    Textures have one level of detail, so the operands that choose one have no effect.
    """
    words, form, more = list(i.modifiers), 0, 0
    if i.opcode == "tld4":
        if not words or words[0] not in _COMPONENTS:
            raise fn.fail(i, "not supported")
        form = GATHER | _COMPONENTS.index(words.pop(0)) << 5
    elif words[:1] in (["base"], ["level"], ["grad"]):
        more = {"base": 0, "level": 1, "grad": 2}[words.pop(0)]
    if len(words) != 4 or words[1] != "v4" or words[2] not in _RESULTS or words[3] not in ("f32", "s32"):
        raise fn.fail(i, "not supported")
    if len(i.operands) != 2 + more:
        raise fn.fail(i, f"expected {2 + more} operands, found {len(i.operands)}; offsets are not supported")
    form |= geometry(fn, i, words[0])
    if form & GATHER and words[0] not in ("2d", "a2d"):
        raise fn.fail(i, "not supported")
    if words[3] == "s32":
        form |= INTEGER
    place = texel_place(fn, i, i.operands[1], form, _S32 if words[3] == "s32" else _F32)
    _fetch(fn, i, place, elements(fn, i, i.operands[0], 4), TYPES[words[2]])


def _fetch(fn: Surroundings, i: Instruction, place: TexelPlace, targets: Sequence[Operand], kind: PtxType) -> None:
    b, W = fn.b, fn.width
    site = fn.unit.site(i, "global")
    out, addresses = room_for(fn, "i32", WORDS), room_for(fn, "i64", CORNERS)
    results = [room_for(fn, "i32", W) for _ in range(WORDS)]
    texels = [room_for(fn, "i64", W) for _ in range(2 ** (place.form & 3))] if fn.observers else []
    for rooms, element in ((results, "i32"), (texels, "i64")):
        for name in rooms:
            b.line(f"store {vector_type(element, W)} {'zeroinitializer' if W > 1 else '0'}, ptr {name}")

    def act(lane: Value, handle: Value, coordinates: Value) -> None:
        found = call(
            b,
            FETCH,
            launch=Value("%launch", "ptr"),
            handle=handle,
            place=coordinates,
            form=place.form,
            out=Value(out, "ptr"),
            addresses=Value(addresses, "ptr"),
        )
        check_handle(b, found, handle, lane, site, 0)
        for element, source, rooms in (("i32", out, results), ("i64", addresses, texels)):
            for n, room in enumerate(rooms):
                at = b.value(f"getelementptr {element}, ptr {source}, i32 {n}", "ptr")
                to = b.value(f"getelementptr {element}, ptr {room}, {b.typed(lane)}", "ptr")
                b.line(f"store {element} {b.value(f'load {element}, ptr {at.text}', element).text}, ptr {to.text}")

    each_lane(fn, place, act)
    active = fn.active
    for room in texels:
        address = b.value(f"load {vector_type('i64', W)}, ptr {room}", "i64", W)
        fn.active = b.land(b.splat(active), b.compare("ne", address, 0))
        for observer in fn.observers:
            observer.accesses(i, Access(address, "global", _B8, site))
    fn.active = active
    loaded = [b.value(f"load {vector_type('i32', W)}, ptr {room}", "i32", W) for room in results]
    for target, value in zip(targets, loaded, strict=False):
        fn.write(i, target, kind, b.bitcast(value, kind.llvm), False)
        if fn.carrier is not None:
            fn.carrier.arrives(i, target, Companion(loaded[-1]), False)


@effect("txq", "suq")
def txq(fn: Surroundings, i: Instruction) -> None:
    """``txq.query.b32 d, [a]``, ``suq.query.b32 d, [a]``."""
    b, W = fn.b, fn.width
    words, operands = i.modifiers, without_policy(i)
    known = textures.QUERIES if i.opcode == "txq" else textures.QUERIES[:4]
    if len(words) != 2 or words[0] not in known or words[1] != "b32" or len(operands) != 2:
        raise fn.fail(i, f"not supported; kcheck answers {', '.join(known)}")
    named = operands[1]
    if not isinstance(named, Address) or not isinstance(named.base, Register) or named.offset:
        raise fn.fail(i, "expected a register with the handle of an object in brackets")
    for observer in fn.observers:
        observer.addresses(i, operands[1])
        observer.derives(i, operands[:1], ())
    site, is_surface = fn.unit.site(i, ""), int(i.opcode == "suq")
    room, out = room_for(fn, "i32", W), room_for(fn, "i32", 1)
    b.line(f"store {vector_type('i32', W)} {'zeroinitializer' if W > 1 else '0'}, ptr {room}")
    b.line(f"store i32 0, ptr {out}")

    def act(lane: Value, handle: Value, coordinates: Value) -> None:
        found = call(
            b,
            QUERY,
            launch=Value("%launch", "ptr"),
            handle=handle,
            what=known.index(words[0]),
            surface=is_surface,
            out=Value(out, "ptr"),
        )
        check_handle(b, found, handle, lane, site, is_surface)
        to = b.value(f"getelementptr i32, ptr {room}, {b.typed(lane)}", "ptr")
        b.line(f"store i32 {b.value(f'load i32, ptr {out}', 'i32').text}, ptr {to.text}")

    each_lane(fn, TexelPlace(Texel(named.base, Vector(())), 0, ()), act)
    value = b.value(f"load {vector_type('i32', W)}, ptr {room}", "i32", W)
    fn.write(i, operands[0], _U32, value, False)
