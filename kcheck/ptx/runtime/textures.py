"""Texture fetches, for one lane at a time.

Source: CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA, "Texture Instructions".

A coordinate ``x`` in texels is in texel ``floor(x)``. With linear filtering, ``x - 0.5`` is rounded to 8
fractional bits; its integer part is the first texel, and its fraction the share of the next one. What the guide
leaves open was measured on an H100:

- A normalized coordinate is truncated to 21 fractional bits before it is multiplied by the size. Wrapping and
  mirroring act on the numbers of texels.
- The weights of texels have 8 fractional bits, too: see :meth:`_Fetch._weigh`.

The weighted sum is computed in float64 and rounded to float32 once. The H100 aligns its terms to fewer bits, which
changes the last bits of some results.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Addressing, Launch, Texture, TextureFormat
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.records import Record, record
from kcheck.ptx.ir.signature import Definition, Signature

WORDS = 5
"""The words of a fetch: four channels, and -1 if a texel that it depends on is uninitialized, else 0."""

CORNERS = 8
"""The maximum number of texels that a fetch depends on."""

LAYER, INTEGER, GATHER = 4, 8, 16
"""Bits of ``form`` in addition to the number of dimensions (1 to 3). From bit 5 on: the component to gather."""

SAMPLES = 8
"""A bit of ``form`` for surfaces: x counts texels, and a whole texel is accessed; otherwise x counts bytes."""

_COMPONENT = 5

_AXIS = Signature("@kcheck.texture.axis", "double", {"x": "float", "n": "i32", "mode": "i32", "unit": "i32"})
"""A coordinate in texels, at most _FAR from zero. ``unit``: whether ``x`` is normalized."""

_FAR = 2.0**30

_UNIT_BITS = 21
"""The fractional bits of a normalized coordinate."""

_INDEX = Signature("@kcheck.texture.index", "i32", {"i": "i32", "n": "i32", "mode": "i32", "unit": "i32"})
"""The number of a texel on an axis, or -1 for the border color."""

_CHANNEL = Signature("@kcheck.texture.channel", "i32", {"texture": "ptr", "address": "i64"})
"""The channel at an address, as a fetch without filtering returns it."""

FIND = Signature("@kcheck.texture.find", "ptr", {"launch": "ptr", "handle": "i64", "surface": "i32"})
"""The record of an object, or null."""

FETCH = Signature(
    "@kcheck.texture.fetch",
    "i1",
    {"launch": "ptr", "handle": "i64", "place": "ptr", "form": "i32", "out": "ptr", "addresses": "ptr"},
)
"""Fetches for one lane. ``place`` has four words, ``out`` WORDS words, and ``addresses`` CORNERS i64: the texels
that the result depends on, then 0. Returns whether the handle is a texture."""

QUERY = Signature(
    "@kcheck.texture.query",
    "i1",
    {"launch": "ptr", "handle": "i64", "what": "i32", "surface": "i32", "out": "ptr"},
)
"""Stores a property of an object in ``out``. ``what``: an index of QUERIES. Returns whether it exists."""

QUERIES = ("width", "height", "depth", "array_size", "normalized_coords", "num_mipmap_levels", "num_samples")
FORMAT, CHANNELS = range(len(QUERIES), len(QUERIES) + 2)
"""Two more properties for QUERY: the TextureFormat, and the number of channels of a texel."""


@dataclass(frozen=True, slots=True)
class _Axes:
    """The first texel on each axis, and the share of the next one in 256ths (double)."""

    first: Array
    share: Array


def definitions(tracks_init: bool, declarations: dict[str, str]) -> dict[str, Definition]:
    """The functions of this file, by name.

    Args:
        tracks_init: whether a fetch reports that a texel is uninitialized.
    """
    return {
        _AXIS.name: _axis(declarations),
        _INDEX.name: _index(),
        _CHANNEL.name: _channel(declarations),
        FIND.name: _find(),
        FETCH.name: _Fetch(tracks_init, declarations).definition(),
        QUERY.name: _query(),
    }


def _find() -> Definition:
    f = FunctionBuilder(FIND, "noinline")
    launch, handle = record(f, "launch", Launch), f.argument("handle")
    number = handle & 0xFFFFFFFF
    with f.if_(number < launch.load(Launch.texture_count)):
        found = launch.records(Launch.textures, Texture)[number]
        right = found.load(Texture.is_surface).eq(f.argument("surface"))
        with f.if_(handle.ne(0) & found.load(Texture.handle).eq(handle) & right):
            f.ret(found.pointer)
    f.ret(f.operand(0, "ptr"))
    return f.definition()


def _float(f: FunctionBuilder, name: str, x: Value, y: Value | float) -> Term:
    return f.term(f.op(name, x, y if isinstance(y, Value) else f.const(x.type, y)))


def _axis(declarations: dict[str, str]) -> Definition:
    """Wrap and mirror are defined only for normalized coordinates (guide, table "Addressing Modes")."""
    f = FunctionBuilder(_AXIS, "noinline", declarations=declarations)
    given, mode = f.argument("x"), f.argument("mode")
    size = f.term(f.cast("uitofp", f.argument("n"), "double"))
    x = f.variable("double", f.cast("fpext", given, "double"))
    with f.if_(f.argument("unit").ne(0)):
        is_subnormal = f.term(f.compare("olt", f.intrinsic("fabs", given), f.float_bits("float", 1 << 23)))
        x.value = is_subnormal.select(f.const("double", 0.0), x.value)
        with f.if_(mode.eq(Addressing.WRAP) | mode.eq(Addressing.MIRROR)):  # the period is 2; exact
            half = f.intrinsic("floor", _float(f, "fmul", x.value, 0.5))
            x.value = _float(f, "fsub", x.value, _float(f, "fmul", half, 2.0))
        whole = f.intrinsic("floor", _float(f, "fmul", x.value, 2.0**_UNIT_BITS))
        x.value = _float(f, "fmul", _float(f, "fmul", whole, 2.0**-_UNIT_BITS), size)
    low = f.intrinsic("maxnum", x.value, f.const("double", -_FAR))  # also for NaN
    f.ret(f.intrinsic("minnum", low, f.const("double", _FAR)))
    return f.definition()


def _index() -> Definition:
    f = FunctionBuilder(_INDEX, "noinline")
    i, n, mode = f.argument("i"), f.argument("n"), f.argument("mode")
    with f.if_(i < n):
        f.ret(i)
    with f.if_(mode.eq(Addressing.BORDER)):
        f.ret(-1)
    with f.if_(f.argument("unit").ne(0)):
        rest = f.term(f.op("srem", i, n << 1))
        turned = f.term(f.compare("slt", rest, 0)).select(rest + (n << 1), rest)
        with f.if_(mode.eq(Addressing.WRAP)):
            f.ret(turned % n)
        with f.if_(mode.eq(Addressing.MIRROR)):
            f.ret((turned < n).select(turned, (n << 1) - 1 - turned))
    f.ret(f.term(f.compare("slt", i, 0)).select(0, n - 1))
    return f.definition()


def _channel(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_CHANNEL, "noinline", declarations=declarations)
    texture = record(f, "texture", Texture)
    form, pointer = texture.load(Texture.format), f.argument("address").to("ptr")

    def integers(bits: int, unsigned: TextureFormat, signed: TextureFormat) -> None:
        for kind in (unsigned, signed):
            with f.if_(form.eq(int(kind))):
                is_signed = kind is signed
                whole = f.resize(f.load(f"i{bits}", pointer), "i32", is_signed)
                with f.if_(texture.load(Texture.to_float).ne(0)):
                    number = f.cast("sitofp", whole, "float")
                    most = (1 << bits - is_signed) - 1
                    scaled = f.op("fdiv", number, f.const("float", float(most)))
                    f.ret(f.bitcast(f.intrinsic("maxnum", scaled, f.const("float", -1.0)), "i32"))
                f.ret(whole)

    integers(8, TextureFormat.UINT8, TextureFormat.INT8)
    integers(16, TextureFormat.UINT16, TextureFormat.INT16)
    with f.if_(form.eq(int(TextureFormat.FLOAT16))):
        f.ret(f.bitcast(f.cast("fpext", f.load("half", pointer), "float"), "i32"))
    f.ret(f.load("i32", pointer))
    return f.definition()


class _Fetch:
    """Emits FETCH."""

    def __init__(self, tracks_init: bool, declarations: dict[str, str]) -> None:
        self.tracks_init = tracks_init
        self.f = f = FunctionBuilder(FETCH, "noinline", declarations=declarations)
        self.launch = record(f, "launch", Launch)
        self.form = f.argument("form")
        self.out = f.array("out", "i32")
        self.addresses = f.array("addresses", "i64")
        self.place = f.array("place", "i32")

    def definition(self) -> Definition:
        """The definition of FETCH."""
        f = self.f
        found = f.run(FIND, launch=f.argument("launch"), handle=f.argument("handle"), surface=0)
        f.fill(f.argument("out"), 0, 4 * WORDS)
        f.fill(f.argument("addresses"), 0, 8 * CORNERS)
        with f.if_(found.eq(0)):
            f.ret(0)
        self.texture = Record(f, found, Texture)
        self.dimensions = self.form & 3
        self.sums = f.array(Term(f, f.local("[4 x double]", 8), "ptr"), "double")
        f.fill(self.sums.at(0), 0, 32)
        self.is_filtered = self.texture.load(Texture.linear).ne(0) & (self.form & INTEGER).eq(0)
        self.gathers = (self.form & GATHER).ne(0)
        self.weighs = self.is_filtered & ~self.gathers
        axes = self._axes()
        self._corners(axes)
        with f.if_(self.weighs), f.range(4) as c:
            self.out[c] = f.term(f.bitcast(f.cast("fptrunc", self.sums[c], "float"), "i32"))
        f.ret(1)
        return f.definition()

    def _axes(self) -> _Axes:
        f, texture = self.f, self.texture
        axes = _Axes(
            f.array(Term(f, f.local("[4 x i32]", 4), "ptr"), "i32"),
            f.array(Term(f, f.local("[4 x double]", 8), "ptr"), "double"),
        )
        f.fill(axes.first.at(0), 0, 16)
        f.fill(axes.share.at(0), 0, 32)
        skipped = (self.form & LAYER) >> 2
        with f.range(self.dimensions) as axis:
            word = self.place[axis + skipped]
            with f.if_((self.form & INTEGER).ne(0)) as integer:
                axes.first[axis] = word
            with integer.else_():
                given = f.bitcast(word, "float")
                x = f.run(
                    _AXIS,
                    x=given,
                    n=texture.load(Texture.extent, axis),
                    mode=texture.load(Texture.addressing, axis),
                    unit=texture.load(Texture.normalized),
                )
                between = self.is_filtered | self.gathers
                rounded = self._rounded(_float(f, "fmul", _float(f, "fsub", x, 0.5), 256.0))
                x = between.select(_float(f, "fmul", rounded, 1 / 256), x)
                below = f.term(f.intrinsic("floor", x))
                axes.first[axis] = f.cast("fptosi", below, "i32")
                axes.share[axis] = _float(f, "fsub", rounded, _float(f, "fmul", below, 256.0))
                with f.if_(self._is_at_clamped_edge(axes.first[axis], axis)):
                    axes.share[axis] = f.const("double", 0.0)
        return axes

    def _is_at_clamped_edge(self, first: Term, axis: Term) -> Term:
        """Whether the first texel and the next one are the same one, because the address is clamped."""
        f, mode = self.f, self.texture.load(Texture.addressing, axis)
        repeats = self.texture.load(Texture.normalized).ne(0) & (
            mode.eq(Addressing.WRAP) | mode.eq(Addressing.MIRROR)
        )
        is_outside = f.term(f.compare("slt", first, 0)) | f.term(
            f.compare("sge", first, self.texture.load(Texture.extent, axis) - 1)
        )
        return is_outside & ~repeats & mode.ne(Addressing.BORDER)

    def _rounded(self, x: Term) -> Term:
        """The nearest integer; the larger one if there are two."""
        return self.f.term(self.f.intrinsic("floor", _float(self.f, "fadd", x, 0.5)))

    def _weigh(self, axes: _Axes, weights: Array) -> None:
        """The weight of each corner. In 256ths they are integers: the whole is parted along z, then each part
        along x, then each along y, and each time one part is rounded and the other is the rest."""
        f = self.f
        whole = f.const("double", 256.0)
        x, y, z = (axes.share[axis] for axis in range(3))

        def part(of: Value, share: Value) -> tuple[Term, Term]:
            """(the part with this share, the rest)."""
            chosen = self._rounded(_float(f, "fmul", _float(f, "fmul", of, share), 1 / 256))
            return chosen, _float(f, "fsub", of, chosen)

        for far, layer in enumerate((_float(f, "fsub", whole, z), z)):
            right, left = part(layer, x)
            right_up, right_low = part(right, y)
            left_low, left_up = part(left, _float(f, "fsub", whole, y))
            for corner, value in enumerate((left_low, right_low, left_up, right_up)):
                weights[4 * far + corner] = _float(f, "fmul", value, 1 / 256)

    def _corners(self, axes: _Axes) -> None:
        """Process each texel. Bit ``axis`` of its number says whether it is the second one on that axis."""
        f, one = self.f, self.f.term(self.f.const("i32", 1))
        many = (self.is_filtered | self.gathers).select(one << self.dimensions, 1)
        weights = f.array(Term(f, f.local("[8 x double]", 8), "ptr"), "double")
        with f.if_(self.weighs):
            self._weigh(axes, weights)
        with f.range(many) as corner:
            place = f.array(Term(f, f.local("[4 x i32]", 4), "ptr"), "i32")
            f.fill(place.at(0), 0, 16)
            outside = f.variable("i1", 0)
            with f.range(self.dimensions) as axis:
                place[axis] = self._texel_number(axes.first[axis] + ((corner >> axis) & 1), axis)
                outside.value = outside.value | place[axis].eq(-1)
            with f.if_((self.form & LAYER).ne(0)):
                most = self.texture.load(Texture.extent, 2) - 1
                place[2] = f.intrinsic("umin", self.place[0], most)
            weight = weights[corner]
            is_zero = f.term(f.compare("oeq", weight, f.const("double", 0.0)))
            with f.unless(self.weighs & is_zero):  # it does not contribute
                self._texel(corner, place, outside.value, weight)

    def _texel_number(self, i: Term, axis: Term) -> Term:
        f, texture = self.f, self.texture
        # A fetch outside linear memory returns 0 (CUDA Runtime API, tex1Dfetch).
        mode = (
            texture.load(Texture.is_linear_memory)
            .ne(0)
            .select(int(Addressing.BORDER), texture.load(Texture.addressing, axis))
        )
        unit = texture.load(Texture.normalized)
        return f.run(_INDEX, i=i, n=texture.load(Texture.extent, axis), mode=mode, unit=unit)

    def _texel(self, corner: Term, place: Array, outside: Term, weight: Term) -> None:
        """Add a texel to the result, or store one of its channels for a gather."""
        f, texture = self.f, self.texture
        at = texture.load(Texture.base) + place[0].to("i64") * texture.load(Texture.texel_bytes).to("i64")
        at = at + place[1].to("i64") * texture.load(Texture.row_pitch)
        at = at + place[2].to("i64") * texture.load(Texture.slice_pitch)
        with f.unless(outside):
            self.addresses[corner] = at
            self._note_uninitialized(at)
        width = texture.load(Texture.texel_bytes) // texture.load(Texture.channels)
        with f.range(texture.load(Texture.channels)) as channel:
            word = f.variable("i32", texture.load(Texture.border, channel))
            with f.unless(outside):
                word.value = f.run(_CHANNEL, texture=texture.pointer, address=at + (channel * width).to("i64"))
            with f.if_(self.gathers & channel.eq(self.form >> _COMPONENT)):
                # Counter-clockwise from the lower left: (0, 1), (1, 1), (1, 0), (0, 0).
                self.out[f.term(f.const("i32", 0x1023)) >> (corner * 4) & 3] = word.value
            with f.if_(self.weighs):
                number = f.cast("fpext", f.bitcast(word.value, "float"), "double")
                self.sums[channel] = f.op("fadd", self.sums[channel], f.op("fmul", weight, number))
            with f.unless(self.is_filtered | self.gathers):
                self.out[channel] = word.value

    def _note_uninitialized(self, at: Term) -> None:
        if not self.tracks_init:
            return
        f = self.f
        near = at - self.launch.load(Launch.init_low)
        with f.if_(near < self.launch.load(Launch.init_size)):
            shadow = (at + self.launch.load(Launch.init_delta)).to("ptr")
            with f.range(self.texture.load(Texture.texel_bytes)) as n:
                byte = f.array(shadow, "i8")[n]
                with f.if_(byte.ne(0)):
                    self.out[WORDS - 1] = -1


def _query() -> Definition:
    f = FunctionBuilder(QUERY, "noinline")
    found = f.run(FIND, launch=f.argument("launch"), handle=f.argument("handle"), surface=f.argument("surface"))
    with f.if_(found.eq(0)):
        f.ret(0)
    texture, what = Record(f, found, Texture), f.argument("what")
    answers = [
        *(texture.load(Texture.extent, axis) for axis in (0, 1, 2, 2)),
        texture.load(Texture.normalized),
        f.const("i32", 1),
        f.const("i32", 1),
        texture.load(Texture.format),
        texture.load(Texture.channels),
    ]
    answer = f.variable("i32", 0)
    for number, value in enumerate(answers):
        with f.if_(what.eq(number)):
            answer.value = value
    f.store(answer.value, f.argument("out"))
    f.ret(1)
    return f.definition()
