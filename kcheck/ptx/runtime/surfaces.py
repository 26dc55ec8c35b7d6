"""The addresses of surface accesses, for one lane at a time.

Source: CUDA C++ Programming Guide, "Surface Functions"; PTX ISA, "Surface Instructions".
"""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind, Texture
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import FunctionBuilder, Term
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.runtime.textures import FIND, LAYER, SAMPLES

SURFACE_MODES = ("trap", "clamp", "zero")
"""What an access outside a surface does, by number."""

SURFACE = Signature(
    "@kcheck.surface.address",
    "i64",
    {
        **CONTEXT,
        "handle": "i64",
        "place": "ptr",
        "form": "i32",
        "size": "i32",
        "mode": "i32",
        "kind": "i32",
        "lane": "i32",
    },
)
"""The address of ``size`` bytes of a surface for one lane; 0 if the lane must not access it. ``mode``: an index of
SURFACE_MODES; ``kind``: the fault to record if the address is outside."""


def definitions(declarations: dict[str, str]) -> dict[str, Definition]:
    """The functions of this file, by name."""
    return {SURFACE.name: _surface(declarations)}


def _surface(declarations: dict[str, str]) -> Definition:
    """The function SURFACE. The first coordinate of a layered surface is the layer."""
    f = FunctionBuilder(SURFACE, "noinline", declarations=declarations)
    handle, mode = f.argument("handle"), f.argument("mode")
    form, place, lane = f.argument("form"), f.array("place", "i32"), f.argument("lane")
    found = f.run(FIND, launch=f.argument("launch"), handle=handle, surface=1)
    with f.if_(found.eq(0)):
        report_fault(f, FaultKind.TEXTURE_HANDLE, f.argument("site"), address=handle, size=1, lane=lane)
        f.ret(0)
    texture = Record(f, found, Texture)
    at, outside = f.variable("i64", texture.load(Texture.base)), f.variable("i1", 0)
    skipped = (form & LAYER) >> 2

    def add(word: Value, room: Term, step: Term) -> None:
        """Add a coordinate to the address. ``room``: how many values it may have; ``step``: bytes between them."""
        number = f.variable("i32", word)
        with f.unless(number.value < room):
            outside.value = 1
            number.value = f.term(f.compare("slt", word, 0)).select(0, f.saturating_sub(room, 1))
        at.value = at.value + number.value.to("i64") * step

    texel = texture.load(Texture.texel_bytes)
    row = texture.load(Texture.extent) * texel
    counts_texels = (form & SAMPLES).ne(0)
    size, step = counts_texels.select(texel, f.argument("size")), counts_texels.select(texel, 1)
    starts = f.saturating_sub(row, size) + (row >= size).to("i32")
    add(place[skipped], counts_texels.select(texture.load(Texture.extent), starts), step.to("i64"))
    with f.if_((form & 3) > 1):
        add(place[skipped + 1], texture.load(Texture.extent, 1), texture.load(Texture.row_pitch))
    with f.if_((form & 3) > 2):
        add(place[skipped + 2], texture.load(Texture.extent, 2), texture.load(Texture.slice_pitch))
    with f.if_((form & LAYER).ne(0)):
        add(place[0], texture.load(Texture.extent, 2), texture.load(Texture.slice_pitch))
    with f.if_(outside.value & mode.ne(SURFACE_MODES.index("clamp"))):
        with f.if_(mode.eq(SURFACE_MODES.index("trap"))):
            x = (place[skipped] * step).to("i64")
            report_fault(f, f.argument("kind"), f.argument("site"), address=x, size=size, lane=lane)
        f.ret(0)
    f.ret(at.value)
    return f.definition()
