"""Random control flow, reducible and not, against an interpreter that runs one thread after another."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi

MASK = 0xFFFFFFFF
THREADS = 70
OPERATIONS = {
    "add.u32": lambda a, b: a + b & MASK,
    "sub.u32": lambda a, b: a - b & MASK,
    "xor.b32": lambda a, b: a ^ b,
    "mul.lo.u32": lambda a, b: a * b & MASK,
    "min.u32": min,
    "and.b32": lambda a, b: a & b,
}
CONDITIONS = {"lt.u32": lambda a, b: a < b, "ge.u32": lambda a, b: a >= b, "eq.u32": lambda a, b: a == b}


@dataclass
class Block:
    """``name target, a, b`` each; then a branch on a comparison, or a table of targets, or nothing."""

    body: list[tuple[str, int, int, int, int | None]]
    branch: tuple[str, int, int, int] | None = None
    table: tuple[int, list[int]] | None = None
    leaves: bool = False


@dataclass
class Program:
    """Random blocks over ``registers`` registers; register 0 is the fuel that bounds a thread's steps."""

    registers: int
    blocks: list[Block] = field(default_factory=list)
    atomics: bool = False


def draw(seed: int) -> Program:
    """A program: of each thread, register 1 begins with its number, the others alike for all."""
    r = random.Random(seed)
    program = Program(r.randrange(4, 9), atomics=r.random() < 0.25)
    count = r.randrange(2, 14)
    for n in range(count):
        body = []
        for _ in range(r.randrange(0, 4)):
            target = r.randrange(2, program.registers)
            guard = r.randrange(1, program.registers) if r.random() < 0.2 else None
            operands = r.randrange(1, program.registers), r.randrange(1, program.registers)
            body.append((r.choice(list(OPERATIONS)), target, *operands, guard))
        block = Block(body)
        if r.random() < 0.75:
            # mostly short jumps, so that loops and their exits nest
            reach = r.choice([2, 3, count])
            target = min(max(n + r.randrange(-reach, reach + 1), 0), count - 1)
            block.branch = (
                r.choice(list(CONDITIONS)),
                r.randrange(1, program.registers),
                r.randrange(1, program.registers),
                target,
            )
        elif r.random() < 0.2:
            block.table = (r.randrange(1, program.registers), [r.randrange(count) for _ in range(3)])
        block.leaves = r.random() < 0.08
        program.blocks.append(block)
    return program


def to_ptx(program: Program) -> str:
    """The program as a kernel that stores every register of every thread."""
    n = program.registers
    lines = [
        HEAD,
        ".visible .entry k(.param .u64 out, .param .u32 fuel)\n{",
        f".reg .b32 %r<{n}>; .reg .pred %p, %q; .reg .b32 %t, %i; .reg .b64 %o, %a;",
        "ld.param.u32 %r0, [fuel]; mov.u32 %t, %tid.x; mov.u32 %r1, %t; ld.param.u64 %o, [out];",
        f"mad.wide.u32 %a, %t, {4 * n + 4}, %o;",
    ]
    lines += [f"mov.u32 %r{k}, {k * 7};" for k in range(2, n)]
    for k, block in enumerate(program.blocks):
        lines.append(f"B{k}:")
        lines.append("setp.eq.u32 %p, %r0, 0; @%p bra END; sub.u32 %r0, %r0, 1;")
        if program.atomics:
            lines.append(f"atom.global.add.u32 %i, [%a+{4 * n}], 1;")
        for name, target, a, b, guard in block.body:
            prefix = ""
            if guard is not None:
                lines.append(f"{{ .reg .b32 %g; and.b32 %g, %r{guard}, 1; setp.ne.u32 %q, %g, 0; }}")
                prefix = "@%q "
            lines.append(f"{prefix}{name} %r{target}, %r{a}, %r{b};")
        if block.leaves:
            lines.append("{ .reg .b32 %g; and.b32 %g, %r1, 31; setp.eq.u32 %q, %g, 3; } @%q bra END;")
        if block.branch is not None:
            condition, a, b, to = block.branch
            lines.append(f"setp.{condition} %p, %r{a}, %r{b}; @%p bra B{to};")
        elif block.table is not None:
            index, targets = block.table
            lines.append(f"T{k}: .branchtargets {', '.join(f'B{t}' for t in targets)};")
            lines.append(f"rem.u32 %i, %r{index}, 3; brx.idx %i, T{k};")
    lines.append("END:")
    lines += [f"st.global.u32 [%a+{4 * k}], %r{k};" for k in range(n)]
    return "\n".join([*lines, "ret;", "}"])


def interpret(program: Program, thread: int, fuel: int) -> list[int]:
    """What one thread leaves in its registers; the last number counts its blocks, where atomics do."""
    r = [fuel, thread, *(k * 7 for k in range(2, program.registers))]
    at, blocks = 0, 0
    while at < len(program.blocks) and r[0]:
        block = program.blocks[at]
        r[0] -= 1
        blocks += 1
        for name, target, a, b, guard in block.body:
            if guard is None or r[guard] & 1:
                r[target] = OPERATIONS[name](r[a], r[b])
        if block.leaves and r[1] & 31 == 3:
            break
        if block.branch is not None and CONDITIONS[block.branch[0]](r[block.branch[1]], r[block.branch[2]]):
            at = block.branch[3]
        elif block.branch is None and block.table is not None:
            at = block.table[1][r[block.table[0]] % 3]
        else:
            at += 1
    return [*r, blocks if program.atomics else 0]


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("seed", range(24))
def test_any_control_flow_runs_as_it_is_written(seed: int, width: int) -> None:
    """Branches, loops, tables and early exits give each thread what it gets when it runs alone."""
    check(seed, width)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("seed", range(2))
def test_vectors_of_two_and_four_lanes_run_control_flow_too(seed: int, width: int) -> None:
    """Their masks are integers of two and four bits."""
    check(seed, width)


def check(seed: int, width: int) -> None:
    """One random program; ``fuel`` is long enough for loops to leave lanes behind."""
    program = draw(seed)
    fuel = 150 if program.atomics else 60
    out = np.zeros((THREADS, program.registers + 1), np.uint32)
    ended = launch(to_ptx(program), [out, fuel], width, block=(THREADS,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    expected = [interpret(program, t, fuel) for t in range(THREADS)]
    np.testing.assert_array_equal(out, np.array(expected, np.uint32), err_msg=f"seed {seed}\n{to_ptx(program)}")
