"""Addresses as functions of the thread's indices: what the host says of a launch holds for each of its threads."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import pytest

from kcheck.cpu.thread_values import ThreadValues
from kcheck.model import Index3
from kcheck.ptx.program import GlobalAccess, MemoryUse, ValueNode

Thread = dict[str, int]


def at_thread(use: MemoryUse, params: bytes, thread: Thread) -> list[int | bool]:
    """Every node's value in one thread, unsigned, by the rules of PTX."""
    found: list[int | bool] = []

    def source(what: int | str) -> int | bool:
        if isinstance(what, int):
            return found[what]
        return int(what[1:]) if what.startswith("=") else thread[what]

    def signed(value: int, bits: int) -> int:
        value &= (1 << bits) - 1
        return value - (1 << bits) if value >> (bits - 1) else value

    for node in use.values:
        kind, x = node.modifiers[-1], [source(s) for s in node.sources]
        bits = 1 if kind == "pred" else int(kind[1:])
        mask = (1 << bits) - 1

        def number(value: int, bits: int = bits, kind: str = kind) -> int:
            return signed(value, bits) if kind[0] == "s" else value & ((1 << bits) - 1)

        match node.opcode:
            case "param":
                value: int | bool = int.from_bytes(params[x[0] : x[0] + bits // 8], "little")
            case "add":
                value = (x[0] + x[1]) & mask
            case "sub":
                value = (x[0] - x[1]) & mask
            case "neg":
                value = -x[0] & mask
            case "mul" if node.modifiers[0] == "wide":
                value = number(x[0]) * number(x[1]) & ((1 << 2 * bits) - 1)
            case "mul":
                value = x[0] * x[1] & mask
            case "mad":
                value = (x[0] * x[1] + x[2]) & mask
            case "shl":
                value = x[0] << x[1] & mask if x[1] < bits else 0
            case "shr":
                value = number(x[0]) >> min(x[1], bits - 1 if kind[0] == "s" else bits) & mask
            case "and":
                value = x[0] & x[1]
            case "or":
                value = x[0] | x[1]
            case "not":
                value = not x[0]
            case "min" | "max":
                value = (min if node.opcode == "min" else max)(number(x[0]), number(x[1])) & mask
            case "cvt":
                value = number(x[0]) & ((1 << int(node.modifiers[0][1:])) - 1)
            case "selp":
                value = x[0] if x[2] else x[1]
            case "setp":
                a, b = number(x[0]), number(x[1])
                tests = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}
                value = tests[node.modifiers[0]]
        found.append(value)
    return found


def are_apart(use: MemoryUse, params: bytes, grid: Index3, block: Index3) -> bool:
    """Whether no byte is touched by two threads, thread by thread."""
    owners: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    sizes = (*block, *grid)
    names = [f"{what}.{axis}" for what in ("tid", "ctaid") for axis in "xyz"]
    counts = {
        f"{w}.{a}": n for w, per in (("ntid", block), ("nctaid", grid)) for a, n in zip("xyz", per, strict=True)
    }
    for indices in itertools.product(*map(range, sizes)):
        values = at_thread(use, params, dict(zip(names, indices, strict=True)) | counts)
        for access in use.accesses:
            if all(values[guard] == wanted for guard, wanted in access.guards):
                first = values[access.address] + access.offset
                for byte in range(first, first + access.size):
                    owners[byte & (1 << 64) - 1].add(indices)
    return all(len(threads) == 1 for threads in owners.values())


class Program:
    """A random computation of an address from the indices, with guards."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[ValueNode] = []
        self.words = [rng.choice((0, 1, 2, 3, 4, 7, 8, 64, -1, -4, 1 << 31, 1 << 40)) for _ in range(3)]
        narrow: list[int | str] = ["tid.x", "tid.y", "ctaid.x", "ctaid.y", "=3", "=1"]
        pairs = [self.add("mad", "lo", "s32", sources=(f"ctaid.{a}", f"ntid.{a}", f"tid.{a}")) for a in "xy"]
        narrow += pairs
        for _ in range(rng.randint(0, 3)):
            narrow.append(self.arithmetic(narrow, rng.choice(("s32", "u32"))))
        wide = [self.add("cvt", "s64", rng.choice(("s32", "u32")), sources=(s,)) for s in rng.choices(narrow, k=3)]
        wide += [self.add("cvt", "s64", "s32", sources=(p,)) for p in pairs]
        wide += [self.add("param", "u64", sources=(f"={8 * n}",)) for n in range(3)]
        for _ in range(rng.randint(1, 6)):
            wide.append(self.arithmetic(wide, "s64"))
        scaled = self.add("shl", "b64", sources=(wide[-1], f"={rng.choice((0, 2, 2, 2, 3))}"))
        self.wide = [*wide, scaled]

    def add(self, opcode: str, *modifiers: str, sources: tuple[int | str, ...]) -> int:
        self.nodes.append(ValueNode(opcode, modifiers, sources))
        return len(self.nodes) - 1

    def arithmetic(self, given: list[int | str] | list[int], kind: str) -> int:
        x, y, z = self.rng.choices(given, k=3)
        bits = kind[1:]
        match self.rng.choice(
            ("add", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "min", "selp", "neg")
        ):
            case "mul":
                return self.add("mul", "lo", kind, sources=(x, y))
            case "mad":
                return self.add("mad", "lo", kind, sources=(x, y, z))
            case "shl":
                return self.add("shl", f"b{bits}", sources=(x, f"={self.rng.randint(0, 5)}"))
            case "shr":
                return self.add("shr", kind, sources=(x, f"={self.rng.choice((1, 4, int(bits) - 1))}"))
            case "and" | "or" as name:
                return self.add(name, f"b{bits}", sources=(x, y))
            case "neg":
                return self.add("neg", kind, sources=(x,))
            case "selp":
                return self.add("selp", f"b{bits}", sources=(x, y, self.compared(x, z, kind)))
            case name:
                return self.add(name, kind, sources=(x, y))

    def compared(self, x: int | str, y: int | str, kind: str) -> int:
        name = self.rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        return self.add("setp", name, kind, sources=(x, y))

    def guards(self) -> tuple[tuple[int, bool], ...]:
        found = [self.compared(*self.rng.choices(self.wide, k=2), "s64") for _ in range(self.rng.randint(0, 2))]
        if len(found) == 2 and self.rng.random() < 0.5:
            found = [self.add(self.rng.choice(("and", "or")), "pred", sources=(found[0], found[1]))]
        return tuple((node, self.rng.random() < 0.5) for node in found)

    def use(self) -> MemoryUse:
        count = self.rng.choice((1, 1, 2))
        address = self.wide[-1]
        accesses = tuple(
            GlobalAccess(True, False, address, 4 * n, self.rng.choice((1, 4, 4, 8)), (), self.guards())
            for n in range(count)
        )
        return MemoryUse(True, tuple(self.nodes), accesses)

    @property
    def params(self) -> bytes:
        return b"".join((word & (1 << 64) - 1).to_bytes(8, "little") for word in self.words)


def launches(rng: random.Random) -> tuple[Index3, Index3]:
    grid = (rng.randint(1, 3), rng.choice((1, 1, 2)), 1)
    return grid, (rng.choice((1, 2, 4)), rng.choice((1, 1, 3)), 1)


@pytest.mark.parametrize("seed", range(20))
def test_threads_that_the_host_calls_apart_touch_no_byte_twice(seed: int) -> None:
    """Of random computations with signs, wrapping, guards and selections."""
    rng = random.Random(seed)
    found = 0
    for _ in range(60):
        program = Program(rng)
        use, (grid, block) = program.use(), launches(rng)
        said = ThreadValues(use, program.params, grid, block).stores_apart(use.accesses)
        found += said
        assert not said or are_apart(use, program.params, grid, block), (use, program.params, grid, block)
    assert found  # the test is not empty


def rows(*, stride: int, guard: int | None) -> MemoryUse:
    """``if j < guard: a[i, j] = ...`` with rows of ``stride`` elements of 4 bytes; x is j, y is i."""
    nodes = [
        ValueNode("mad", ("lo", "s32"), ("ctaid.x", "ntid.x", "tid.x")),
        ValueNode("mad", ("lo", "s32"), ("ctaid.y", "ntid.y", "tid.y")),
        ValueNode("mad", ("lo", "s32"), (1, f"={stride}", 0)),
        ValueNode("mul", ("wide", "s32"), (2, "=4")),
        ValueNode("param", ("u64",), ("=0",)),
        ValueNode("add", ("s64",), (3, 4)),
        ValueNode("setp", ("ge", "s32"), (0, f"={guard or 0}")),
    ]
    guards = () if guard is None else ((6, False),)
    return MemoryUse(True, tuple(nodes), (GlobalAccess(True, False, 5, 0, 4, (0,), guards),))


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (rows(stride=16, guard=None), True),
        (rows(stride=13, guard=None), False),
        (rows(stride=13, guard=13), True),
        (rows(stride=13, guard=14), False),
        (rows(stride=0, guard=None), False),
    ],
)
def test_a_row_is_left_unless_it_is_as_long_as_the_grid_or_guarded(use: MemoryUse, expected: bool) -> None:
    """Two blocks of 8 threads along x."""
    params = (1 << 20).to_bytes(8, "little")
    grid, block = (2, 2, 1), (8, 4, 1)
    assert ThreadValues(use, params, grid, block).stores_apart(use.accesses) is expected
    assert are_apart(use, params, grid, block) is expected
