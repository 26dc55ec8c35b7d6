"""A launch without the checks that can find nothing: the same findings, results and marks as with them."""

from __future__ import annotations

import ctypes
import struct
import time
from pathlib import Path
from unittest import mock

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.needless_checks import CheckChooser, NeededChecks
from kcheck.model import Finding, Index3
from kcheck.ptx.abi import Checks

ROWS, COLUMNS = 24, 40
BYTES = 4 * ROWS * COLUMNS
BOTH = Checks(race=True, init=True)

HEAD = """.version 8.7
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 m)
{
    .reg .b32 %i, %j, %k, %n, %m, %t, %u, %v, %w; .reg .b64 %x, %y, %a, %b, %c, %from, %to;
    .reg .pred %p, %q, %r, %s;
    .shared .align 4 .b8 tile[4096];
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %n, [n]; ld.param.u32 %m, [m];
    mov.u32 %t, %tid.x;
    mad.lo.s32 %j, %ctaid.x, %ntid.x, %t;
    mad.lo.s32 %i, %ctaid.y, %ntid.y, %tid.y;
    setp.ge.s32 %r, %j, %m; setp.ge.s32 %s, %i, %n; or.pred %p, %r, %s;
"""
INDEX = "mad.lo.s32 %k, %i, 40, %j; mul.wide.s32 %a, %k, 4; add.s64 %from, %x, %a; add.s64 %to, %y, %a;\n"
COPY = f"@%p bra END; {INDEX} ld.global.u32 %v, [%from]; add.u32 %v, %v, 1; st.global.u32 [%to], %v;"
BODIES = {
    "each its own": COPY,
    "x is the row": COPY.replace("%i, 40, %j", "%j, 40, %i").replace("@%p bra END;", "@%s bra END;"),
    "in place": COPY.replace("add.u32 %v, %v, 1;", "ld.global.u32 %w, [%to]; add.u32 %v, %v, %w;"),
    "under a predicate": f"{INDEX} @!%p ld.global.u32 %v, [%from]; @!%p st.global.u32 [%to], %v;",
    "no guard": COPY.replace("@%p bra END;", ""),
    "every other": COPY.replace("mul.wide.s32 %a, %k, 4", "mul.wide.s32 %a, %k, 8").replace("40", "20"),
    "a pair": COPY.replace("%k, 4;", "%k, 8;")
    .replace("40", "20")
    .replace("u32 [%to], %v", "v2.u32 [%to], {%v, %v}"),
    "all store one": COPY.replace("add.s64 %to, %y, %a", "mov.u64 %to, %y"),
    "to the next": COPY + "st.global.u32 [%to+4], %v;",
    "a copied value": COPY.replace("add.u32 %v, %v, 1;", ""),
    "a decision": COPY.replace(
        "add.u32 %v, %v, 1;", "setp.gt.u32 %q, %v, 5; @%q bra END; mov.u32 %v, 3;"
    ),
    "an atomic": COPY.replace("st.global.u32 [%to], %v", "red.global.add.u32 [%to], %v"),
    "through shared memory": "@%p bra END; " + INDEX + "ld.global.u32 %v, [%from]; mov.u64 %b, tile;"
    "mad.lo.s32 %u, %tid.y, %ntid.x, %t; mul.wide.s32 %c, %u, 4; add.s64 %b, %b, %c; st.shared.u32 [%b], %v;"
    "ld.shared.u32 %w, [%b]; st.global.u32 [%to], %w;",
    "unset shared memory": "@%p bra END; " + INDEX + "mov.u64 %b, tile; ld.shared.u32 %w, [%b];"
    "st.global.u32 [%to], %w;",
}  # fmt: skip
RACING = {"all store one", "to the next"}


class Device:
    """An executor with two arrays."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        self.memory = Memory(64 << 20)
        self.module: LoadedModule | None = None
        cache = ObjectCache(folder)
        self.executor = Executor(self.memory, 1, cache, time.monotonic, self.found.append, lambda _: None)
        self.executor.checks = BOTH
        self.x, self.y = (self.memory.allocate(BYTES, MemoryKind.DEVICE) for _ in range(2))

    def launch(
        self, body: str, *, grid: Index3, block: Index3, defined: tuple[int, int], limits: tuple[int, int]
    ) -> tuple[object, ...]:
        """Findings, how it ended, the bytes of both arrays, and which of them are initialized.

        Args:
            defined: how many bytes of x and y are, from the start.
        """
        self.found.clear()
        for array, count in zip((self.x, self.y), defined, strict=True):
            ctypes.memmove(array, bytes(n % 7 for n in range(BYTES)), BYTES)
            self.memory.undefine(array, BYTES)
            self.memory.define(array, count)
        self.module = self.executor.load(HEAD + body + "\nEND: ret;\n}\n")  # kept, and with it its code
        params = struct.pack("<QQII", self.x, self.y, *limits)
        launch = KernelLaunch(self.module, "k", params, grid, block, 0, cooperative=False)
        ending = self.executor.launch(launch)
        delta = self.memory.shadow[2]
        state = [ctypes.string_at(a + d, BYTES) for a in (self.x, self.y) for d in (0, delta)]
        return sorted(map(repr, self.found)), ending, *state

    def variants(self) -> list[Checks]:
        """The checks of the code that was compiled."""
        return [v.checks for known in list(self.executor.kernels.known.values()) for v in known]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    """One for all launches."""
    return Device(tmp_path_factory.mktemp("cache"))


LAUNCHES = {
    "whole rows": ((5, 3, 1), (8, 8, 1), (ROWS, COLUMNS)),
    "more threads than elements": ((3, 2, 1), (16, 16, 1), (ROWS - 1, COLUMNS - 3)),
    "odd rows": ((4, 8, 1), (9, 3, 1), (20, 35)),
}
STATES = {"all": (BYTES, BYTES), "x": (BYTES, 0), "half of x": (BYTES // 2, BYTES), "none": (0, 0)}


@pytest.mark.parametrize("shape", LAUNCHES)
@pytest.mark.parametrize("body", BODIES)
def test_a_launch_ends_as_with_all_checks(device: Device, body: str, shape: str) -> None:
    """In every state of the two arrays: the same findings, values and marks of initialized bytes."""
    grid, block, limits = LAUNCHES[shape]
    if body in ("x is the row", "no guard"):
        grid, block, limits = (1, 1, 1), (24, 40, 1) if body == "x is the row" else (40, 24, 1), (40, 24)
    if body in ("every other", "a pair", "to the next"):
        limits = (limits[0], min(limits[1], 20 if body != "to the next" else COLUMNS - 1))
    for defined in STATES.values():
        given = {"grid": grid, "block": block, "defined": defined, "limits": limits}
        chosen = device.launch(BODIES[body], **given)
        with mock.patch.object(CheckChooser, "needed", lambda _, checks, *rest: NeededChecks(checks)):
            assert chosen == device.launch(BODIES[body], **given)
        if body in RACING:
            assert any("racecheck" in line for line in chosen[0])


@pytest.mark.parametrize("shape", ["whole rows", "more threads than elements"])
@pytest.mark.parametrize(
    ("body", "defined", "left"),
    [
        ("each its own", "all", Checks()),
        ("each its own", "x", Checks(init=True)),
        ("each its own", "half of x", Checks(init=True)),
        ("x is the row", "all", Checks()),
        ("in place", "all", Checks()),
        ("under a predicate", "all", Checks()),
        ("a pair", "all", Checks()),
        ("all store one", "all", Checks(race=True)),
        ("to the next", "all", Checks(race=True)),
        ("an atomic", "all", Checks(race=True)),
        ("through shared memory", "all", BOTH),
    ],
)
def test_only_checks_that_may_find_something_are_compiled(
    tmp_path: Path, body: str, defined: str, left: Checks, shape: str
) -> None:
    """The code of a first launch has no others."""
    device = Device(tmp_path)
    grid, block, limits = LAUNCHES[shape]
    if body == "x is the row":
        grid, block, limits = (1, 1, 1), (24, 40, 1), (40, 24)
    if body == "a pair":
        limits = (ROWS, 20)
    device.launch(BODIES[body], grid=grid, block=block, defined=STATES[defined], limits=limits)
    assert device.variants() == [left]


def test_views_of_one_allocation_are_one_array(tmp_path: Path) -> None:
    """y begins in x: the threads store to what others load."""
    device = Device(tmp_path)
    device.y = device.x + 4
    grid, block, _ = LAUNCHES["whole rows"]
    found = device.launch(COPY, grid=grid, block=block, defined=(BYTES, BYTES - 4), limits=(ROWS, COLUMNS - 1))
    assert any("racecheck" in line for line in found[0])


def test_what_a_launch_leaves_uninitialized_is_found_by_the_next(tmp_path: Path) -> None:
    """The first one writes all rows but the last; its code only marks what it writes."""
    device = Device(tmp_path)
    grid, block, _ = LAUNCHES["whole rows"]
    given = {"grid": grid, "block": block}
    assert not device.launch(COPY, **given, defined=STATES["x"], limits=(ROWS - 1, COLUMNS))[0]
    written = ctypes.string_at(device.y + device.memory.shadow[2], BYTES)
    row = 4 * COLUMNS
    assert written == bytes(BYTES - row) + b"\xff" * row
    device.found.clear()
    params = struct.pack("<QQII", device.y, device.x, ROWS, COLUMNS)
    module = device.executor.load(HEAD + COPY + "\nEND: ret;\n}\n")
    device.executor.launch(KernelLaunch(module, "k", params, grid, block, 0, cooperative=False))
    assert {finding.rule for finding in device.found} == {"initcheck"}
