"""``suld``, ``sust``: surfaces, by the handle of an object.

Source: PTX ISA, "Surface Instructions". :mod:`kcheck.ptx.runtime.textures` computes the address at which a lane
accesses a surface, for one lane after another.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind, TextureFormat
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.isa.access_form import elements
from kcheck.ptx.isa.effects import effect
from kcheck.ptx.isa.events import Access
from kcheck.ptx.isa.loadstore import admitted, unchecked_load, unchecked_store
from kcheck.ptx.isa.rounding import narrowed
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.isa.textures import TexelPlace, each_lane, geometry, room_for, texel_place
from kcheck.ptx.runtime.lookup import code_context
from kcheck.ptx.runtime.surfaces import SURFACE, SURFACE_MODES
from kcheck.ptx.runtime.textures import CHANNELS, FORMAT, QUERY, SAMPLES
from kcheck.ptx.syntax.ast import Instruction, Operand
from kcheck.ptx.syntax.types import TYPES, PtxType

_S32 = TYPES["s32"]
_SURFACE_TYPES = frozenset({"b8", "b16", "b32", "b64"})
_FORMATTED = frozenset({"b32", "u32", "s32", "f32"})
_OPTIONAL = frozenset({"ca", "cg", "cs", "cv", "wb", "wt"})


@effect("suld")
def suld(fn: Surroundings, i: Instruction) -> None:
    """``suld.b.geom{.cop}{.vec}.dtype.mode d, [a, c]``."""
    place, kind, count, mode = _surface_form(fn, i, i.operands[1] if len(i.operands) > 1 else None)
    targets = elements(fn, i, i.operands[0], count)
    address, mask, site = _surface(fn, i, place, kind, count, mode, FaultKind.OUT_OF_BOUNDS_LOAD)
    before, fn.active = fn.active, mask
    for observer in fn.observers:
        observer.accesses(i, Access(address, "global", kind, site, count))
    fn.active = before
    for n, target in enumerate(targets):
        at = fn.b.add(address, n * kind.bytes)
        fn.write(i, target, kind, unchecked_load(fn, at, mask, kind), True)
        if fn.carrier is not None:
            fn.carrier.arrives(i, target, fn.carrier.fetch(i, Access(at, "global", kind, site), mask), False)


@effect("sust")
def sust(fn: Surroundings, i: Instruction) -> None:
    """``sust.b.geom{.cop}{.vec}.ctype.mode [a, c], b``; ``sust.p`` of 32-bit components."""
    is_formatted = i.modifiers[:1] == ("p",)
    place, kind, count, mode = _surface_form(fn, i, i.operands[0] if i.operands else None)
    sources = elements(fn, i, i.operands[1], count)
    values = [fn.b.splat(fn.read(i, source, kind, relaxed=True)) for source in sources]
    address, mask, site = _surface(fn, i, place, kind, count, mode, FaultKind.OUT_OF_BOUNDS_STORE)
    before, fn.active = fn.active, mask
    if is_formatted:
        _store_formatted(fn, i, _texels(fn, i, place, address), list(zip(sources, values, strict=True)))
    else:
        for observer in fn.observers:
            observer.accesses(i, Access(address, "global", kind, site, count), values)
        for n, (source, value) in enumerate(zip(sources, values, strict=True)):
            at = fn.b.add(address, n * kind.bytes)
            unchecked_store(fn, at, value, mask, kind)
            if fn.carrier is not None:
                shadow = fn.carrier.stored(i, source, Access(at, "global", kind, site))
                fn.carrier.store("global", at, shadow, mask, site)
    fn.active = before


def _surface_form(
    fn: Surroundings, i: Instruction, operand: Operand | None
) -> tuple[TexelPlace, PtxType, int, int]:
    """The place, the type and number of elements, and the mode of a ``suld`` or ``sust``."""
    words = [word for word in i.modifiers if word not in _OPTIONAL]
    count = 1
    if len(words) > 2 and words[2] in ("v2", "v4"):
        count = int(words.pop(2)[1:])
    known = (
        _FORMATTED if words[:1] == ["p"] and i.opcode == "sust" else _SURFACE_TYPES if words[:1] == ["b"] else ()
    )
    is_known = len(words) == 4 and words[2] in known
    if not is_known or words[3] not in SURFACE_MODES or operand is None or len(i.operands) != 2:
        raise fn.fail(i, "not supported")
    form = geometry(fn, i, words[1]) | (SAMPLES if words[0] == "p" else 0)
    place = texel_place(fn, i, operand, form, _S32)
    return place, TYPES["b32" if words[0] == "p" else words[2]], count, SURFACE_MODES.index(words[3])


def _surface(
    fn: Surroundings, i: Instruction, place: TexelPlace, kind: PtxType, count: int, mode: int, fault: FaultKind
) -> tuple[Value, Value, int]:
    """The address in each lane, the lanes that access it, and the site."""
    b, W = fn.b, fn.width
    site = fn.unit.site(i, "global")
    size = 1 if place.form & SAMPLES else kind.bytes * count  # texels are aligned
    outside = {
        FaultKind.OUT_OF_BOUNDS_LOAD: FaultKind.SURFACE_BOUNDS_LOAD,
        FaultKind.OUT_OF_BOUNDS_STORE: FaultKind.SURFACE_BOUNDS_STORE,
    }[fault]
    room = room_for(fn, "i64", W)
    b.line(f"store {vector_type('i64', W)} {'zeroinitializer' if W > 1 else '0'}, ptr {room}")

    def act(lane: Value, handle: Value, coordinates: Value) -> None:
        found = call(
            b,
            SURFACE,
            **code_context(site),
            handle=handle,
            place=coordinates,
            form=place.form,
            size=size,
            mode=mode,
            kind=int(outside),
            lane=lane,
        )
        to = b.value(f"getelementptr i64, ptr {room}, {b.typed(lane)}", "ptr")
        b.line(f"store {b.typed(found)}, ptr {to.text}")

    each_lane(fn, place, act)
    address = b.value(f"load {vector_type('i64', W)}, ptr {room}", "i64", W)
    before, fn.active = fn.active, b.compare("ne", address, 0)
    mask = admitted(fn, address, "global", fault, size, site)
    fn.active = before
    return address, mask, site


# --- sust.p: each component is converted to the format of the surface, which is known at run time


@dataclass(frozen=True, slots=True)
class _Texels:
    """The texel of each lane: its address (0: none), its TextureFormat and its channels."""

    address: Value
    format: Value
    channels: Value
    site: int


_BY_SIZE = {
    "b8": (TextureFormat.UINT8, TextureFormat.INT8),
    "b16": (TextureFormat.UINT16, TextureFormat.INT16, TextureFormat.FLOAT16),
    "b32": (TextureFormat.UINT32, TextureFormat.INT32, TextureFormat.FLOAT32),
}


def _texels(fn: Surroundings, i: Instruction, place: TexelPlace, address: Value) -> _Texels:
    b, W = fn.b, fn.width
    out, rooms = room_for(fn, "i32", 1), [room_for(fn, "i32", W) for _ in range(2)]
    for name in (*rooms, out):
        whole = vector_type("i32", 1 if name == out else W)
        b.line(f"store {whole} {'0' if whole == 'i32' else 'zeroinitializer'}, ptr {name}")

    def act(lane: Value, handle: Value, coordinates: Value) -> None:
        for what, name in zip((FORMAT, CHANNELS), rooms, strict=True):
            call(
                b,
                QUERY,
                launch=Value("%launch", "ptr"),
                handle=handle,
                what=what,
                surface=1,
                out=Value(out, "ptr"),
            )
            to = b.value(f"getelementptr i32, ptr {name}, {b.typed(lane)}", "ptr")
            b.line(f"store i32 {b.value(f'load i32, ptr {out}', 'i32').text}, ptr {to.text}")

    each_lane(fn, place, act)
    form, channels = (b.value(f"load {vector_type('i32', W)}, ptr {name}", "i32", W) for name in rooms)
    return _Texels(address, form, channels, fn.unit.site(i, "global"))


def _store_formatted(
    fn: Surroundings, i: Instruction, texels: _Texels, components: list[tuple[Operand, Value]]
) -> None:
    """Store the components of each texel. The ISA leaves the channels without a component undefined: they keep
    their values and become uninitialized."""
    b, active = fn.b, fn.active
    for name, formats in _BY_SIZE.items():
        kind = TYPES[name]
        has_format = b.const("i1", 0)
        for form in formats:
            has_format = b.lor(has_format, b.compare("eq", texels.format, int(form)))
        for n in range(4):
            mask = b.land(b.splat(active), b.land(has_format, b.compare("ugt", texels.channels, n)))
            at = b.add(texels.address, n * kind.bytes)
            fn.active = mask
            is_given = n < len(components)
            value = b.splat(b.const(kind.llvm, 0))
            if is_given:
                value = _converted(fn, components[n][1], texels.format, name)
            for observer in fn.observers:
                observer.accesses(i, Access(at, "global", kind, texels.site), (value,))
            if is_given:
                unchecked_store(fn, at, value, mask, kind)
            if fn.carrier is not None:
                shadow = fn.carrier.constant(kind, False)
                if is_given:
                    whole = fn.carrier.stored(i, components[n][0], Access(at, "global", TYPES["b32"], texels.site))
                    shadow = b.cast("sext", b.splat(b.compare("ne", whole, 0)), kind.llvm)
                fn.carrier.store("global", at, shadow, mask, texels.site)
    fn.active = active


def _converted(fn: Surroundings, value: Value, form: Value, name: str) -> Value:
    """A component of 32 bits in the format of each lane. Integers are clamped; floats are rounded towards zero, as
    an H100 does it."""
    b = fn.b
    if name == "b32":
        return value
    bits = int(name[1:])
    low, high = b.const("i32", -(1 << (bits - 1))), b.const("i32", (1 << (bits - 1)) - 1)
    signed = b.intrinsic("smax", b.intrinsic("smin", value, high), low)
    unsigned = b.intrinsic("umin", value, b.const("i32", (1 << bits) - 1))
    is_signed = b.compare("eq", form, int(_BY_SIZE[name][1]))
    number = b.resize(b.select(is_signed, signed, unsigned), f"i{bits}")
    if name == "b8":
        return number
    half = b.bitcast(narrowed(b, b.bitcast(value, "float"), "rz", "half"), "i16")
    return b.select(b.compare("eq", form, int(TextureFormat.FLOAT16)), half, number)
