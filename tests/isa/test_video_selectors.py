"""Selectors and masks of video instructions against the pseudocode of the PTX ISA, in plain integers."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.syntax.parser import parse
from tests.isa.differences import differs
from tests.isa.machines import DEVICE, ON_ALL_MACHINES, Launch, Machine

THREADS = 24
MASKS = {
    4: ["b0", "b1", "b10", "b2", "b20", "b21", "b210", "b3", "b30", "b31", "b310", "b32", "b320", "b321", "b3210"],
    2: ["h0", "h1", "h10"],
}
KERNEL = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry one(.param .u64 sources, .param .u64 results) {{
.reg .b32 %t, %a, %b, %c, %d;
.reg .b64 %from, %to, %step;
ld.param.u64 %from, [sources];
ld.param.u64 %to, [results];
mov.u32 %t, %tid.x;
mul.wide.u32 %step, %t, 12;
add.u64 %from, %from, %step;
ld.global.b32 %a, [%from];
ld.global.b32 %b, [%from+4];
ld.global.b32 %c, [%from+8];
mul.wide.u32 %step, %t, {bytes};
add.u64 %to, %to, %step;
{statements}
ret;
}}
"""


def _number(kind: str, value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind == "s32" and value >> (bits - 1) else value


def _clamp(kind: str, value: int, bits: int) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "s32" else (0, (1 << bits) - 1)
    return max(low, min(value, high))


def _operate(name: str, cmp: str, x: int, y: int) -> int:
    match name:
        case "vadd":
            return x + y
        case "vsub":
            return x - y
        case "vavrg":
            return (x + y + 1) >> 1 if x + y >= 0 else (x + y) >> 1
        case "vabsdiff":
            return abs(x - y)
        case "vmin":
            return min(x, y)
        case "vmax":
            return max(x, y)
    tests = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return int(tests[cmp])


def expected(statement: str, a: int, b: int, c: int) -> int:
    """What the ISA's pseudocode gives for a statement as :func:`statements` writes it."""
    found = re.fullmatch(r"(v[a-z]+)([24]?)\.([\w.]+) %d(\.\w+)?, %a(\.\w+)?, %b(\.\w+)?(, %c)?;", statement)
    assert found is not None
    name, lanes, modifiers = found[1], int(found[2] or 1), found[3].split(".")
    mask, first, second = ((found[n] or "")[1:] for n in (4, 5, 6))
    cmp = modifiers.pop(2) if name == "vset" else ""
    kinds = ["u32", *modifiers[:2]] if name == "vset" else modifiers[:3]
    if lanes == 1:
        return _scalar(_operate, (name, cmp, kinds, modifiers), (mask, first, second), (a, b, c))
    bits = 32 // lanes
    pool = [((b << 32 | a) >> bits * n) for n in range(2 * lanes)]
    orders = [[int(n) for n in reversed(text[1:])] for text in (first, second)]
    x_order = orders[0] or list(range(lanes))
    y_order = orders[1] or list(range(lanes, 2 * lanes))
    chosen = {int(n) for n in mask[1:]} if mask else set(range(lanes))
    results = []
    for n in range(lanes):
        x, y = _number(kinds[1], pool[x_order[n]], bits), _number(kinds[2], pool[y_order[n]], bits)
        value = _operate(name, cmp, x, y)
        results.append(_clamp(kinds[0], value, bits) if "sat" in modifiers else value)
    if "add" in modifiers:
        return (c + sum(results[n] for n in chosen)) & 0xFFFFFFFF
    whole = [results[n] if n in chosen else c >> bits * n for n in range(lanes)]
    return sum((part & (1 << bits) - 1) << bits * n for n, part in enumerate(whole))


def _scalar(
    operate: Callable[[str, str, int, int], int],
    instruction: tuple[str, str, list[str], list[str]],
    selectors: tuple[str, str, str],
    sources: tuple[int, int, int],
) -> int:
    name, cmp, kinds, modifiers = instruction

    def field(text: str) -> tuple[int, int]:
        return (0, 32) if not text else (8 * int(text[1]), 8) if text[0] == "b" else (16 * int(text[1]), 16)

    x, y = (
        _number(kind, source >> field(text)[0], field(text)[1])
        for kind, source, text in zip(kinds[1:], sources, selectors[1:], strict=False)
    )
    value = operate(name, cmp, x, y)
    start, bits = field(selectors[0])
    if "sat" in modifiers:
        value = _clamp(kinds[0], value, bits)
    kept = sources[2] & ~((1 << bits) - 1 << start) & 0xFFFFFFFF if selectors[0] else 0
    return kept | (value & (1 << bits) - 1) << start


def statements(name: str, lanes: int) -> Iterator[str]:
    """Every mask, with random selectors and types."""
    rng = random.Random(f"{name}{lanes}")
    kind = lambda: rng.choice(("u32", "s32"))  # noqa: E731
    scalar = ("b0", "b1", "b2", "b3", "h0", "h1")
    for mask in MASKS.get(lanes, scalar):
        for after in ("", ".sat") if lanes == 1 else ("", ".sat", ".add"):
            if name == "vset":
                if after == ".sat":
                    continue
                types = f"{kind()}.{kind()}.{rng.choice(('eq', 'ne', 'lt', 'le', 'gt', 'ge'))}"
            else:
                types = f"{kind()}.{kind()}.{kind()}"
            if lanes == 1:
                selectors = [rng.choice(scalar) for _ in range(2)]
            else:
                letter, most = ("b", 7) if lanes == 4 else ("h", 3)
                selectors = [letter + "".join(str(rng.randint(0, most)) for _ in range(lanes)) for _ in range(2)]
            first, second = (rng.choice((f".{text}", f".{text}", "")) for text in selectors)
            opcode = name + (str(lanes) if lanes > 1 else "")
            yield f"{opcode}.{types}{after} %d.{mask}, %a{first}, %b{second}, %c;"


def _forms() -> Iterator[tuple[str, int]]:
    for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset"):
        yield from ((name, lanes) for lanes in (1, 2, 4))
    yield from (("vavrg", 2), ("vavrg", 4))


@ON_ALL_MACHINES
@pytest.mark.parametrize(("name", "lanes"), list(_forms()))
def test_masks_and_selectors_are_those_of_the_isa(
    name: str, lanes: int, width: int, machine: Callable[[int], Machine]
) -> None:
    texts = list(statements(name, lanes))
    if width == DEVICE and differs(texts[0]):
        pytest.skip("a known difference")
    stored = "\n".join(f"{text}\nst.global.b32 [%to+{4 * n}], %d;" for n, text in enumerate(texts))
    rng = random.Random("sources")
    edges = (0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x80007FFF, 0x01010101)
    words = [rng.choice((rng.getrandbits(32), rng.choice(edges))) for _ in range(3 * THREADS)]
    launch = Launch(
        KERNEL.format(bytes=4 * len(texts), statements=stored),
        "one",
        (struct.pack(f"<{len(words)}I", *words), bytes(4 * len(texts) * THREADS)),
        1,
        THREADS,
    )
    ran = machine(width).run(launch)
    assert not ran.found
    results = struct.unpack(f"<{len(texts) * THREADS}I", ran.buffers[1])
    for thread in range(THREADS):
        sources = words[3 * thread : 3 * thread + 3]
        for text, result in zip(texts, results[thread * len(texts) :], strict=False):
            assert result == expected(text, *sources), (text, [hex(word) for word in sources])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("add.s32 %d, %a.b0, %b;", "only operands of video instructions have selectors"),
        ("vadd4.u32.u32.u32 %d, %a.b0, %b, %c;", r"\.b0 is not a selector of 4 bytes"),
        ("vadd4.u32.u32.u32 %d.b01, %a, %b, %c;", r"\.b01 is not a mask of 4 bytes"),
        ("vadd2.u32.u32.u32 %d, %a, %b.b3210, %c;", r"\.b3210 is not a selector of 2 halves"),
        ("vadd2.u32.u32.u32 %d.h2, %a, %b, %c;", r"\.h2 is not a mask of 2 halves"),
        ("vadd.u32.u32.u32 %d, %a.b10, %b;", r"\.b10 is not a selector of a scalar video instruction"),
        ("vadd.u32.u32.u32 %d.b0, %a, %b;", "operand 1 has no selector here"),
        ("vadd.u32.u32.u32.add %d.b0, %a, %b, %c;", "a result with a selector has no second operation"),
        ("vmad.u32.u32.u32 %d, %a, %b, %c.h0;", "operand 4 has no selector here"),
        ("vadd.s32.s32.s32 %d, -%a, %b;", "only the sources of vmad can be negated"),
        ("add.s32 %d, -%a, %b;", "only the sources of vmad can be negated"),
        ("vmad.s32.s32.s32 -%d, %a, %b, %c;", "only the sources of vmad can be negated"),
        ("vmad.s32.s32.s32.po %d, -%a, %b, %c;", r"sources cannot be negated with \.po"),
        ("vmad.s32.s32.s32 %d, -%a, %b, -%c;", "either the product or the third source can be negated, not both"),
        ("vmad.s32.s32.s32.-ab %d, %a, %b, %c;", r"character '\.' is not valid in PTX"),
    ],
)
def test_a_selector_or_sign_that_an_operand_cannot_have_is_an_error(statement: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(KERNEL.format(bytes=4, statements=statement))
