"""Instructions that touch memory, as cases of a program: each stores into a cell of its own and reads it back."""

from __future__ import annotations

from collections.abc import Iterator

from tests.isa.model import Form
from tests.isa.model.answers import pack
from tests.isa.model.atomic import OPERATIONS, updated
from tests.isa.model.form import Reply
from tests.isa.model.formats import FORMATS, signed
from tests.isa.program import Case

_SPACES = ("global", "shared", "local", "")
"""State spaces; ``""`` is generic addressing."""


def _width(kind: str) -> int:
    if kind.endswith("x2"):
        return 32
    return FORMATS[kind].bits if kind in FORMATS else int(kind[1:])


def _dotted(space: str) -> str:
    return f".{space}" if space else ""


def _cell(space: str) -> str:
    """A generic address is that of the thread's cell in global memory."""
    return "{" + (space or "global") + "}"


def _atom(operation: str, kind: str, space: str, qualifiers: str = "", generic: str = "") -> Case:
    width = _width(kind)
    suffix = ".noftz" if (width == 16 and kind in FORMATS) or kind.endswith("x2") else ""
    home = space or generic or "global"
    name = f"atom{qualifiers}{_dotted(space)}.{operation}{suffix}.{kind}"
    operands = "{b}, {c}" if operation == "cas" else "{b}"
    address = "{" + home + "}"
    lines = [f"st.{home}.b{width} [{address}], {{a}}"]
    if generic:
        lines.append(f"cvta.{generic}.u64 {{x}}, {address}")
        address = "{x}"
    lines += [f"{name} {{d0}}, [{address}], {operands}", f"ld.{home}.b{width} {{d1}}, [{{{home}}}]"]

    def compute(old: int, x: int, y: int = 0) -> tuple[Reply, ...]:
        if not kind.endswith("x2"):
            return old, updated(operation, kind, home, old, x, y)
        half = kind.removesuffix("x2")
        halves = tuple(updated(operation, half, home, old >> s & 0xFFFF, x >> s & 0xFFFF) for s in (0, 16))
        return old, pack(16, halves)

    sources = (kind,) * (3 if operation == "cas" else 2)
    cc = 90 if kind.startswith("bf16") else 80
    shown = f"{name} in {generic} memory" if generic else name
    return Case(shown, Form((width, width), sources, compute, cc=cc), tuple(lines), scratch=64)


def _reduce(operation: str, kind: str, space: str) -> Case:
    """``red``: as ``atom``, without the old value."""
    atom = _atom(operation, kind, space)
    name = atom.name.replace("atom", "red", 1)
    address = _cell(space)
    lines = (atom.lines[0], f"{name} [{address}], {{b}}", f"ld.global.b{_width(kind)} {{d0}}, [{{global}}]")
    compute = atom.form.compute
    form = Form(atom.form.results[1:], atom.form.sources, lambda old, x: compute(old, x)[1], cc=atom.form.cc)
    return Case(name, form, lines)


def atomics() -> Iterator[Case]:
    """Every operation of every type in every space; and semantics and scopes: nothing to one thread."""
    for operation, kinds in OPERATIONS.items():
        for kind in kinds:
            for space in ("global", "shared"):
                yield _atom(operation, kind, space)
            yield _atom(operation, kind, "", generic="shared")
            if operation not in ("exch", "cas"):
                yield _reduce(operation, kind, "global")
    for sem in ("", ".relaxed", ".acquire", ".release", ".acq_rel"):
        for scope in ("", ".cta", ".gpu", ".sys"):
            if sem or scope:
                yield _atom("add", "u32", "global", sem + scope)
    yield Case(
        "atom with no use of the old value",
        Form((32,), ("u32", "u32"), lambda old, x: (old + x) & 0xFFFFFFFF),
        (
            "st.global.b32 [{global}], {a}",
            "atom.global.add.u32 _, [{global}], {b}",
            "ld.global.b32 {d0}, [{global}]",
        ),
    )
    yield _atom("cas", "b32", "global", ".acq_rel.gpu")
    yield _atom("exch", "b64", "shared", ".relaxed.cta")


def _extended(kind: str, width: int, bits: int) -> int:
    """Memory of a type in a register: signed types are sign-extended, others zero-extended."""
    size = _width(kind)
    bits &= (1 << size) - 1
    return signed(bits, size) & ((1 << width) - 1) if kind[0] == "s" else bits


def _load(kind: str, space: str, width: int, qualifiers: str = "") -> Case:
    name = f"ld{qualifiers}{_dotted(space)}.{kind}"
    lines = (
        f"st{_dotted(space)}.b64 [{_cell(space)}+8], {{a}}",
        f"{name} {{d0}}, [{_cell(space)}+8]",
    )
    form = Form((width,), ("b64",), lambda a: _extended(kind, width, a))
    return Case(f"{name} into {width} bits", form, lines)


def _store(kind: str, space: str, width: int, qualifiers: str = "") -> Case:
    """What a store writes and what it leaves alone: the eight bytes around it are read back."""
    size = _width(kind)
    name = f"st{qualifiers}{_dotted(space)}.{kind}"
    place = size // 8 if size < 64 else 0
    lines = (
        "mov.u64 {x}, 0xA1B2C3D4E5F60718",
        f"st{_dotted(space)}.b64 [{_cell(space)}], {{x}}",
        f"{name} [{_cell(space)}+{place}], {{a}}",
        f"ld{_dotted(space)}.b64 {{d0}}, [{_cell(space)}]",
    )
    mask = ((1 << size) - 1) << 8 * place

    def compute(a: int) -> int:
        return 0xA1B2C3D4E5F60718 & ~mask | a << 8 * place & mask

    return Case(f"{name} of {width} bits", Form((64,), (f"b{width}",), compute), lines, scratch=64)


def _vector(kind: str, count: int, space: str) -> Case:
    """A vector stored and loaded in one piece, and by its elements."""
    size = _width(kind)
    register = max(size, 16)
    pieces = ["{x}", "{y}", "{z}", "{w}"][:count]
    shift = (
        [f"shr.u64 {piece}, {{a}}, {4 * n}" for n, piece in enumerate(pieces)]
        if register == 64
        else [
            line
            for n, piece in enumerate(pieces)
            for line in (f"shr.u64 {{d{count}}}, {{a}}, {4 * n}", f"cvt.u{register}.u64 {piece}, {{d{count}}}")
        ]
    )
    step = size // 8
    listed = ", ".join(f"{{d{n}}}" for n in range(count))
    lines = (
        *shift,
        f"st{_dotted(space)}.v{count}.{kind} [{_cell(space)}], {{{{{', '.join(pieces)}}}}}",
        f"ld{_dotted(space)}.v{count}.{kind} {{{{{listed}}}}}, [{_cell(space)}]",
        f"ld{_dotted(space)}.{kind} {pieces[0]}, [{_cell(space)}+{step * (count - 1)}]",
        *(
            [f"mov.b64 {{d{count}}}, {pieces[0]}"]
            if register == 64
            else [f"cvt.u64.u{register} {{d{count}}}, {pieces[0]}"]
        ),
    )

    def compute(a: int) -> tuple[int, ...]:
        found = [_extended(kind, register, a >> 4 * n) for n in range(count)]
        return (*found, found[-1])

    form = Form((register,) * count + (64,), ("b64",), compute)
    return Case(f"ld and st {space or 'generic'} v{count}.{kind}", form, lines, scratch=register)


_LOADED = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")


def loads_and_stores() -> Iterator[Case]:
    """``ld`` and ``st`` of every type in every space, of registers as wide and wider, and of vectors."""
    for space in _SPACES:
        for kind in _LOADED:
            for width in (16, 32, 64):
                wide_enough = width >= _width(kind) if kind not in FORMATS else width == _width(kind)
                if wide_enough and (space == "global" or width != 16 or _width(kind) < 32):
                    yield _load(kind, space, width)
                    yield _store(kind, space, width)
        for kind in ("b8", "u8", "s8", "b16", "s16", "b32", "f32", "b64", "f64"):
            for count in (2, 4):
                if count * _width(kind) <= 128:
                    yield _vector(kind, count, space)
    for qualifiers in (".volatile", ".relaxed.gpu", ".acquire.sys", ".relaxed.cta"):
        yield _load("s32", "global", 64, qualifiers)
    for qualifiers in (".volatile", ".relaxed.gpu", ".release.sys", ".release.cta"):
        yield _store("b16", "global", 32, qualifiers)
    for hint in ("ca", "cg", "cs", "lu", "cv", "nc"):
        yield _hinted(f"ld.global.{hint}.b32", store=False)
    yield _hinted("ldu.global.b32", store=False)
    for hint in ("wb", "cg", "cs", "wt"):
        yield _hinted(f"st.global.{hint}.b32", store=True)
    yield from _with_policy()
    yield _narrowed()


def _narrowed() -> Case:
    """A shared address may go through 32 bits on its way to a generic one: as ``<cuda/barrier>`` does it."""
    lines = (
        "and.b64 {x}, {shared}, 0xFFFFFFFF",
        "cvta.shared.u64 {x}, {x}",
        "st.b32 [{x}], {a}",
        "ld.shared.b32 {d0}, [{shared}]",
    )
    return Case("cvta.shared of 32 bits", Form((32,), ("b32",), lambda a: a), lines, scratch=64)


def _with_policy() -> Iterator[Case]:
    """A cache policy, the last operand of an instruction with ``.L2::cache_hint``, changes nothing."""
    policy = "createpolicy.fractional.L2::evict_last.b64 {x}, 1.0"
    form = Form((32,), ("b32",), lambda a: a)
    store, load = "st.global.b32 [{global}+16], {a}", "ld.global.b32 {d0}, [{global}+16]"
    hint = "L2::cache_hint"
    yield Case(
        f"ld {hint}",
        form,
        (policy, store, f"ld.global.L1::evict_last.{hint}.b32 {{d0}}, [{{global}}+16], {{x}}"),
        scratch=64,
    )
    yield Case(
        f"st {hint}", form, (policy, f"st.global.{hint}.b32 [{{global}}+16], {{a}}, {{x}}", load), scratch=64
    )
    add = "st.global.b32 [{global}], {a}", "ld.global.b32 {d0}, [{global}]"
    one = Form((32,), ("b32",), lambda a: (a + 1) & 0xFFFFFFFF)
    lines = (policy, add[0], f"red.global.add.{hint}.u32 [{{global}}], 1, {{x}}", add[1])
    yield Case(f"red {hint}", one, lines, scratch=64)
    lines = (policy, add[0], f"atom.global.add.{hint}.u32 {{d0}}, [{{global}}], 1, {{x}}", add[1])
    yield Case(f"atom {hint}", one, lines, scratch=64)


def _hinted(name: str, store: bool) -> Case:
    """A cache hint changes nothing. (What ``.nc`` and ``ldu`` read is never written: it is zero.)"""
    if ".nc." in name or name.startswith("ldu"):
        lines: tuple[str, ...] = (f"{name} {{d0}}, [{{global}}+28]", "add.u32 {d0}, {d0}, {a}")
    else:
        store_name, load_name = (name, "ld.global.b32") if store else ("st.global.b32", name)
        lines = (f"{store_name} [{{global}}+16], {{a}}", f"{load_name} {{d0}}, [{{global}}+16]")
    return Case(name, Form((32,), ("b32",), lambda a: a), lines)
