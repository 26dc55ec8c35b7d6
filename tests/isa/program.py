"""One PTX kernel that runs many instruction forms over the same inputs, and stores what each gives.

Parameters: the addresses of the inputs, one column after another, of the results, and of a cell of CELL bytes for
each thread; thread i takes element i of each column. Cells of its own lie in shared and local memory as well.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tests.isa.inputs import bits_of, samples
from tests.isa.model import Form

BLOCK = 96
CELL = 32
ENTRY = "forms"


@dataclass(frozen=True, slots=True)
class Case:
    """An instruction form and how it is written.

    Attributes:
        name: the instruction without operands.
        lines: what to run instead, with ``{d0}`` ... for results, ``{a}``, ``{b}``, ``{c}``, ``{e}`` for sources,
            ``{x}``, ``{y}``, ``{z}``, ``{w}`` for scratch registers of ``scratch`` bits, and ``{global}``,
            ``{shared}``, ``{local}`` for the address of a cell.
    """

    name: str
    form: Form
    lines: tuple[str, ...] = ()
    scratch: int = 32

    def __str__(self) -> str:
        return self.name if self.form.immediate is None else f"{self.name} {self.form.immediate:#x}"


def _bytes(bits: int) -> int:
    return max(bits, 8) // 8 if bits > 1 else 4


@dataclass(frozen=True, slots=True)
class Program:
    """Cases of equal sources, as text, with the layout of its memory.

    Attributes:
        inputs: the bytes of the columns.
        results: for each case, the offset and the bytes of an element of each of its results.
        size: bytes of all results.
    """

    cases: tuple[Case, ...]
    text: str
    rows: tuple[tuple[int, ...], ...]
    inputs: bytes
    results: tuple[tuple[tuple[int, int], ...], ...]
    size: int

    @property
    def blocks(self) -> int:
        return -(-len(self.rows) // BLOCK)

    @property
    def buffers(self) -> tuple[bytes, bytes, bytes]:
        """What the parameters point to."""
        return self.inputs, bytes(self.size), bytes(CELL * len(self.rows))

    def outcomes(self, case: int, memory: bytes) -> list[tuple[int, ...]]:
        """What one case gave, for each row of inputs."""
        columns = []
        for offset, size in self.results[case]:
            end = offset + size * len(self.rows)
            columns.append(struct.unpack(f"<{len(self.rows)}{' BH I   Q'[size]}", memory[offset:end]))
        return list(zip(*columns, strict=True))


class _Body:
    """Collects instructions and counts registers by bits."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts = {1: 0, 16: 0, 32: 0, 64: 0}

    def register(self, bits: int) -> str:
        self.counts[bits] += 1
        return f"%{_PREFIX[bits]}{self.counts[bits]}"

    def add(self, line: str) -> None:
        self.lines.append(f"  {line};")

    def declarations(self) -> Iterator[str]:
        for bits, count in self.counts.items():
            kind = ".pred" if bits == 1 else f".b{bits}"
            yield f"  .reg {kind} %{_PREFIX[bits]}<{count + 1}>;"


_PREFIX = {1: "p", 16: "h", 32: "r", 64: "d"}


def _aligned(offset: int) -> int:
    return -(-offset // 16) * 16


def build(cases: Sequence[Case], target: int = 90, uniform: Collection[int] = ()) -> Program:
    """A program of cases whose forms have the same sources.

    Args:
        target: the compute capability that the text names, times ten.
        uniform: the places of sources that every thread of a block takes from the block's first row, so that a
            compiler may hold them once for a warp.
    """
    draws = cases[0].form.sources
    rows = samples(draws)
    if uniform:
        rows = tuple(
            tuple(rows[i - i % BLOCK][n] if n in uniform else bits for n, bits in enumerate(row))
            for i, row in enumerate(rows)
        )
    body = _Body()
    index, limit, source, target_address = (body.register(b) for b in (32, 1, 64, 64))
    block, width = body.register(32), body.register(32)
    body.add(f"mov.u32 {index}, %tid.x")
    body.add(f"mov.u32 {block}, %ctaid.x")
    body.add(f"mov.u32 {width}, %ntid.x")
    body.add(f"mad.lo.s32 {index}, {block}, {width}, {index}")
    body.add(f"setp.ge.u32 {limit}, {index}, {len(rows)}")
    body.lines.append(f"  @{limit} bra DONE;")
    body.add(f"ld.param.u64 {source}, [inputs]")
    body.add(f"ld.param.u64 {target_address}, [results]")
    bases: dict[tuple[str, int], str] = {}

    def element(base: str, size: int) -> str:
        """The address of this thread's element in a column at the start of the memory."""
        if (base, size) not in bases:
            address = body.register(64)
            body.add(f"mad.wide.u32 {address}, {index}, {size}, {base}")
            bases[base, size] = address
        return bases[base, size]

    columns, offset, operands = [], 0, []
    for place, draw in enumerate(draws):
        bits = bits_of(draw)
        size = _bytes(bits)
        register = body.register(32 if bits == 1 else bits)
        address = element(source, size)
        if place in uniform:
            address = body.register(64)
            body.add(f"mad.wide.u32 {address}, {block}, {size * BLOCK}, {source}")
        body.add(f"ld.global.b{size * 8} {register}, [{address}+{offset}]")
        if bits == 1:
            predicate = body.register(1)
            body.add(f"setp.ne.u32 {predicate}, {register}, 0")
            register = predicate
        operands.append(register)
        column = b"".join(row[place].to_bytes(size, "little") for row in rows)
        columns.append(column.ljust(_aligned(len(column)), b"\0"))
        offset += len(columns[-1])

    cells = _cells(body, index) if any(case.lines for case in cases) else {}
    results, offset = [], 0
    for case in cases:
        places = []
        for register in _emit(body, case, operands, cells):
            bits = {"p": 1, "h": 16, "r": 32, "d": 64}[register[1]]
            if bits == 1:
                number = body.register(32)
                body.add(f"selp.u32 {number}, 1, 0, {register}")
                register = number
            size = _bytes(bits)
            body.add(f"st.global.b{size * 8} [{element(target_address, size)}+{offset}], {register}")
            places.append((offset, size))
            offset += _aligned(size * len(rows))
        results.append(tuple(places))
    text = "\n".join(
        [
            ".version 8.8",
            f".target sm_{target}",
            ".address_size 64",
            f".shared .align 16 .b8 together[{BLOCK * CELL}];",
            f".visible .entry {ENTRY}(.param .u64 inputs, .param .u64 results, .param .u64 cells) {{",
            f"  .local .align 16 .b8 own[{CELL}];",
            *body.declarations(),
            *body.lines,
            "DONE:",
            "  ret;",
            "}",
            "",
        ]
    )
    return Program(tuple(cases), text, rows, b"".join(columns), tuple(results), offset)


def _cells(body: _Body, index: str) -> dict[str, str]:
    """Registers with the addresses of this thread's cells, by state space."""
    spaces = {space: body.register(64) for space in ("global", "shared", "local")}
    thread, shared = body.register(32), body.register(64)
    body.add(f"ld.param.u64 {spaces['global']}, [cells]")
    body.add(f"mad.wide.u32 {spaces['global']}, {index}, {CELL}, {spaces['global']}")
    body.add(f"mov.u32 {thread}, %tid.x")
    body.add(f"mov.u64 {shared}, together")
    body.add(f"mad.wide.u32 {spaces['shared']}, {thread}, {CELL}, {shared}")
    body.add(f"mov.u64 {spaces['local']}, own")
    return spaces


def _emit(body: _Body, case: Case, operands: list[str], cells: dict[str, str]) -> list[str]:
    """The instruction, and what sets and reads the carry flag around it; its result registers."""
    form = case.form
    if case.lines:
        results = [body.register(bits) for bits in form.results]
        names = {f"d{i}": register for i, register in enumerate(results)} | dict(
            zip("abce", operands, strict=False)
        )
        names |= {name: body.register(case.scratch) for name in "xyzw"} | cells
        for line in case.lines:
            body.add(line.format_map(names))
        return results
    sources = list(operands)
    if form.carry_in:
        carry = sources.pop()
        dummy = body.register(32)
        # the flag becomes the carry, or for the subtractions the borrow
        if case.name.startswith("sub"):
            zero = body.register(32)
            body.add(f"mov.u32 {zero}, 0")
            body.add(f"sub.cc.u32 {dummy}, {zero}, {carry}")
        else:
            body.add(f"add.cc.u32 {dummy}, {carry}, -1")
    registers = [body.register(bits) for bits in form.results]
    written = registers[: -1 if form.carry_out else None]
    if form.immediate is not None:
        sources.append(hex(form.immediate))
    body.add(f"{case.name} {'|'.join(written)}, {', '.join(sources)}")
    if form.carry_out:
        if case.name.startswith("sub"):
            borrow = body.register(32)
            body.add(f"subc.u32 {borrow}, 0, 0")
            body.add(f"neg.s32 {registers[-1]}, {borrow}")
        else:
            body.add(f"addc.u32 {registers[-1]}, 0, 0")
    return registers
