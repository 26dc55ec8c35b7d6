"""``mov``, predicates, constants and address conversions, as cases of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.isa.model import Form
from tests.isa.model.form import Reply
from tests.isa.model.formats import signed
from tests.isa.program import Case


def _moved(
    name: str, results: tuple[int, ...], sources: tuple[str, ...], compute: Callable[..., Reply], *lines: str
) -> Case:
    return Case(name, Form(results, sources, compute), lines)


def _words(a: int, width: int, count: int) -> tuple[int, ...]:
    return tuple(a >> width * n & ((1 << width) - 1) for n in range(count))


def moves() -> Iterator[Case]:
    """``mov`` of every type, packing and unpacking, addresses, predicates and constants as the ISA writes them."""
    for kind in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        yield _moved(f"mov.{kind}", (int(kind[1:]),), (kind,), lambda a: a, f"mov.{kind} {{d0}}, {{a}}")
    yield _moved("mov.pred", (1,), ("pred",), lambda a: a, "mov.pred {d0}, {a}")
    yield _moved("pack 2 x b16", (32,), ("b16", "b16"), lambda a, b: b << 16 | a, "mov.b32 {d0}, {{{a}, {b}}}")
    yield _moved("pack 2 x b32", (64,), ("b32", "b32"), lambda a, b: b << 32 | a, "mov.b64 {d0}, {{{a}, {b}}}")
    yield _moved(
        "pack 4 x b16", (64,), ("b16", "b16"), lambda a, b: a << 48 | b << 32 | b << 16 | a,
        "mov.b64 {d0}, {{{a}, {b}, {b}, {a}}}",
    )  # fmt: skip
    yield _moved("unpack 2 x b16", (16, 16), ("b32",), lambda a: _words(a, 16, 2), "mov.b32 {{{d0}, {d1}}}, {a}")
    yield _moved("unpack 2 x b32", (32, 32), ("b64",), lambda a: _words(a, 32, 2), "mov.b64 {{{d0}, {d1}}}, {a}")
    yield _moved(
        "unpack 4 x b16",
        (16,) * 4,
        ("b64",),
        lambda a: _words(a, 16, 4),
        "mov.b64 {{{d0}, {d1}, {d2}, {d3}}}, {a}",
    )
    yield _moved("unpack into a sink", (16,), ("b32",), lambda a: a >> 16, "mov.b32 {{_, {d0}}}, {a}")
    yield _moved(
        "a guard", (32,), ("b32", "pred"), lambda a, b: a if b else 7, "mov.b32 {d0}, 7", "@{b} mov.b32 {d0}, {a}"
    )
    yield _moved(
        "a negated guard", (32,), ("b32", "pred"), lambda a, b: 7 if b else a,
        "mov.b32 {d0}, 7", "@!{b} mov.b32 {d0}, {a}",
    )  # fmt: skip
    yield _moved(
        "setp p|q with a negated predicate", (1, 1), ("s32", "s32", "pred"),
        lambda a, b, c: (0, 0) if c else (int(signed(a, 32) < signed(b, 32)), int(signed(a, 32) >= signed(b, 32))),
        "setp.lt.and.s32 {d0}|{d1}, {a}, {b}, !{c}",
    )  # fmt: skip
    yield _moved(
        "setp p|q",
        (1, 1),
        ("u32", "u32"),
        lambda a, b: (int(a == b), int(a != b)),
        "setp.eq.u32 {d0}|{d1}, {a}, {b}",
    )
    yield _moved("setp p|_", (1,), ("u32", "u32"), lambda a, b: int(a < b), "setp.lt.u32 {d0}|_, {a}, {b}")
    yield _moved("setp _|q", (1,), ("u32", "u32"), lambda a, b: int(a >= b), "setp.lt.u32 _|{d0}, {a}, {b}")
    for text, number in (
        ("-1", -1), ("0x80000000", 1 << 31), ("0XFFFFFFFFU", 0xFFFFFFFF), ("0777", 0o777), ("0b1011", 11),
        ("4294967295", 0xFFFFFFFF), ("0f3F800000", 0x3F800000), ("(1 << 4) + 3", 19), ("~5", ~5), ("7 % 4 * 2", 6),
        ("-7 / 2", -3), ("(3 > 2) ? 9 : 8", 9), ("-1 >> 28", -1), ("!0 + 0xF0 & 0x3C", 0x30), ("1 << 2 | 1", 5),
        ("0x80000000U >> 31", 1), ("(-1) / 2U", 0x7FFFFFFFFFFFFFFF),
    ):  # fmt: skip
        yield _moved(
            f"the constant {text}", (32,), ("b32",), lambda a, n=number: (n ^ a) & 0xFFFFFFFF,
            f"xor.b32 {{d0}}, {{a}}, {text}",
        )  # fmt: skip
    yield _moved("an f32 constant", (32,), ("b32",), lambda a: 0x40490FDB, "mov.f32 {d0}, 0f40490FDB")
    yield _moved(
        "an f64 constant", (64,), ("b32",), lambda a: 0x400921FB54442D18, "mov.f64 {d0}, 0d400921FB54442D18"
    )
    yield _moved("a decimal constant", (64,), ("b32",), lambda a: 0x3FF8000000000000, "mov.f64 {d0}, 1.5")
    for space in ("global", "shared", "local"):
        yield Case(
            f"cvta.{space} and back",
            Form((32,), ("b32",), lambda a: a),
            (
                f"cvta.{space}.u64 {{x}}, {{{space}}}",
                "st.b32 [{x}+4], {a}",
                f"cvta.to.{space}.u64 {{x}}, {{x}}",
                f"ld.{space}.b32 {{d0}}, [{{x}}+4]",
            ),
            scratch=64,
        )
        for asked in ("global", "shared", "local", "const", "param"):
            yield Case(
                f"isspacep.{asked} of {space}",
                Form((1,), ("b32",), lambda a, yes=int(asked == space): yes),
                (f"cvta.{space}.u64 {{x}}, {{{space}}}", f"isspacep.{asked} {{d0}}, {{x}}"),
                scratch=64,
            )
    for nothing in (
        "nanosleep.u32 20",
        "nanosleep.u32 {a}",
        "pmevent 3",
        "prefetch.global.L1 [{global}]",
        "prefetch.L2 [{global}]",
        "prefetchu.L1 [{global}]",
        "applypriority.global.L2::evict_normal [{x}], 128",
        "griddepcontrol.wait",
        "griddepcontrol.launch_dependents",
    ):
        cc = 90 if nothing.startswith("griddepcontrol") else 80
        lines = ("and.b64 {x}, {global}, -128", "mov.b32 {d0}, {a}", nothing)
        yield Case(nothing, Form((32,), ("b32",), lambda a: a, cc=cc), lines, scratch=64)
    # what it discards are other threads' cells: not for a device, where that is real
    lines = ("and.b64 {x}, {global}, -128", "mov.b32 {d0}, {a}", "discard.global.L2 [{x}], 128")
    yield Case("discard", Form((32,), ("b32",), lambda a: a, cc=1000), lines, scratch=64)
    for fence in (
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.sc.gpu",
        "fence.acq_rel.cta",
        "fence.acq_rel.sys",
    ):
        yield _moved(fence, (32,), ("b32",), lambda a: a, "mov.b32 {d0}, {a}", fence)
