"""``ldmatrix``, ``stmatrix``, ``movmatrix``: where each element goes, and what the checks say of their memory."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.errors import PtxError
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.isa.verify import verify
from kcheck.ptx.syntax.parser import parse
from tests.isa.machines import ON_ALL_MACHINES, Launch, Machine

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"
ROW = 16  # bytes

MOVE = f"""{HEAD}
.visible .entry move(.param .u64 inputs, .param .u64 results) {{
.reg .b32 %t, %a, %d;
.reg .b64 %in, %out;
mov.u32 %t, %tid.x;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 4, %out;
ld.global.b32 %a, [%in];
movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;
st.global.b32 [%out], %d;
ret;
}}
"""


def loading(
    count: int, transposed: bool, stride: int = ROW, between: str = "bar.sync 0;", space: str = ".shared"
) -> str:
    """32 threads fill 8 * count rows of ``stride`` bytes, a word at a time, then load them as matrices; the lanes
    give the addresses of the rows in reverse order of the matrices."""
    registers = ", ".join(f"%r{n}" for n in range(count))
    trans = ".trans" if transposed else ""
    words = 8 * count * stride // 4
    fill = "\n".join(
        f"ld.global.b32 %w, [%in+{128 * n}];\nst.shared.b32 [%at+{128 * n}], %w;" for n in range(words // 32)
    )
    stores = "\n".join(f"st.global.b32 [%out+{128 * n}], %r{n};" for n in range(count))
    generic = "cvta.shared.u64 %row, %row;" if not space else ""
    return f"""{HEAD}
.visible .entry matrices(.param .u64 inputs, .param .u64 results) {{
.shared .align 16 .b8 tile[{words * 4}];
.reg .b32 %t, %w, %r<4>;
.reg .b64 %in, %out, %at, %row, %wide, %tile;
mov.u32 %t, %tid.x;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 4, %out;
mov.u64 %tile, tile;
mad.wide.u32 %at, %t, 4, %tile;
{fill}
{between}
xor.b32 %w, %t, {8 * (count - 1)};
mad.wide.u32 %row, %w, {stride}, %tile;
{generic}
ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {{{registers}}}, [%row];
{stores}
ret;
}}
"""


@ON_ALL_MACHINES
@pytest.mark.parametrize("space", [".shared", ""], ids=["shared", "generic"])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_lane_gets_its_elements(
    count: int, transposed: bool, space: str, width: int, machine: Callable[[int], Machine]
) -> None:
    """PTX ISA, ldmatrix: lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, or of column l / 4 if
    transposed; the rows of matrix j are at the addresses of lanes 8 j to 8 j + 7."""
    stride = 2 * ROW
    chance = random.Random(count)
    halves = [chance.getrandbits(16) for _ in range(8 * count * stride // 2)]
    text = loading(count, transposed, stride, space=space)
    content = struct.pack(f"<{len(halves)}H", *halves)
    ran = machine(width).run(Launch(text, "matrices", (content, bytes(128 * count)), 1, 32))
    assert ran.found == ()
    results = struct.unpack(f"<{32 * count}I", ran.buffers[1])
    for matrix in range(count):
        rows = [(8 * matrix + n) ^ 8 * (count - 1) for n in range(8)]
        elements = [halves[row * stride // 2 : row * stride // 2 + 8] for row in rows]
        for lane in range(32):
            group, rank = divmod(lane, 4)
            low, high = (
                elements[2 * rank + n][group] if transposed else elements[group][2 * rank + n] for n in (0, 1)
            )
            assert results[32 * matrix + lane] == high << 16 | low


@ON_ALL_MACHINES
def test_movmatrix_transposes(width: int, machine: Callable[[int], Machine]) -> None:
    """Row r of the result is column r of the source."""
    ran = machine(width).run(Launch(MOVE, "move", (struct.pack("<64H", *range(64)), bytes(128)), 1, 32))
    found = struct.unpack("<64H", ran.buffers[1])
    assert list(found) == [8 * (n % 8) + n // 8 for n in range(64)]


def findings(folder: Path, width: int, text: str, checks: Checks, defined: int = 128) -> list[Finding]:
    """What a launch of ``loading`` reports; only so many bytes of its input are initialized."""
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = checks
    given, taken = memory.allocate(1024, MemoryKind.DEVICE), memory.allocate(1024, MemoryKind.DEVICE)
    if checks.init:
        memory.undefine(given, 1024)
        memory.define(given, defined)
    module = executor.load(text)
    params = struct.pack("<QQ", given, taken)
    executor.launch(KernelLaunch(module, "matrices", params, (1, 1, 1), (32, 1, 1), 0, False))
    return found


@pytest.mark.parametrize("width", [1, 8])
def test_a_missing_barrier_before_it_is_a_race(tmp_path: Path, width: int) -> None:
    """Rows are written by other lanes than those that load them; a barrier, or bar.warp.sync, orders the two."""
    race = Checks(race=True)
    assert {f.rule for f in findings(tmp_path, width, loading(1, False, between=""), race)} == {"racecheck"}
    for barrier in ("bar.sync 0;", "bar.warp.sync 0xffffffff;"):
        assert findings(tmp_path, width, loading(1, False, between=barrier), race) == []


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "trans"])
def test_uninitialized_rows_go_on_as_they_are(tmp_path: Path, width: int, transposed: bool) -> None:
    """Loading and storing them is no use; adding to them is. Which lanes hold them follows from the layout."""
    init = Checks(init=True)
    copied = loading(1, transposed)
    assert findings(tmp_path, width, copied, init, 64) == []
    added = copied.replace("st.global.b32 [%out+0], %r0;", "add.u32 %r0, %r0, 1;\nst.global.b32 [%out+0], %r0;")
    assert findings(tmp_path, width, added, init, 128) == []
    (found,) = findings(tmp_path, width, added, init, 64)
    assert found.rule == "initcheck"
    # rows 4 to 7: of every lane with the second half of ranks, or of groups from 4 on; lane 2, or 16, is the first
    assert found.thread == ((2, 0, 0) if transposed else (16, 0, 0))


@pytest.mark.parametrize("width", [1, 8])
def test_rows_that_are_not_there_are_a_memcheck_error(tmp_path: Path, width: int) -> None:
    """An address beyond shared memory, and one that is not a multiple of 16."""
    beyond = loading(1, False).replace("mad.wide.u32 %row, %w, 16", "mad.wide.u32 %row, %w, 32")
    assert {f.rule for f in findings(tmp_path, width, beyond, Checks())} == {"memcheck"}
    crooked = loading(2, False).replace("ldmatrix", "add.s64 %row, %row, 4;\nldmatrix")
    assert {f.rule for f in findings(tmp_path, width, crooked, Checks())} == {"memcheck"}


def storing(
    count: int, transposed: bool, space: str = ".shared", guard: str = "", between: str = "bar.sync 0;"
) -> str:
    """32 threads store the matrices in their registers, each row at the address of a lane, in reverse order of the
    matrices; then each reads ``count`` words of the tile."""
    registers = ", ".join(f"%r{n}" for n in range(count))
    trans = ".trans" if transposed else ""
    loads = "\n".join(f"ld.global.b32 %r{n}, [%in+{128 * n}];" for n in range(count))
    reads = "\n".join(
        f"ld.shared.b32 %w, [%at+{128 * n}];\nst.global.b32 [%out+{128 * n}], %w;" for n in range(count)
    )
    generic = "cvta.shared.u64 %row, %row;" if not space else ""
    return f"""{HEAD.replace("sm_80", "sm_90")}
.visible .entry matrices(.param .u64 inputs, .param .u64 results) {{
.shared .align 16 .b8 tile[{128 * count}];
.reg .b32 %t, %w, %r<4>; .reg .pred %p;
.reg .b64 %in, %out, %at, %row, %tile;
mov.u32 %t, %tid.x;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 4, %out;
mov.u64 %tile, tile;
mad.wide.u32 %at, %t, 4, %tile;
{loads}
setp.ne.u32 %p, %t, 99;
xor.b32 %w, %t, {8 * (count - 1)};
mad.wide.u32 %row, %w, {ROW}, %tile;
{generic}
{guard} stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 [%row], {{{registers}}};
{between}
{reads}
ret;
}}
"""


@ON_ALL_MACHINES
@pytest.mark.parametrize(("space", "guard"), [(".shared", ""), ("", ""), (".shared::cta", "@%p")])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_row_is_stored_at_the_address_of_its_lane(
    count: int, transposed: bool, space: str, guard: str, width: int, machine: Callable[[int], Machine]
) -> None:
    """PTX ISA, stmatrix: what ldmatrix with the same addresses would load."""
    chance = random.Random(count)
    words = [chance.getrandbits(32) for _ in range(32 * count)]
    content = struct.pack(f"<{len(words)}I", *words)
    text = storing(count, transposed, space, guard)
    ran = machine(width).run(Launch(text, "matrices", (content, bytes(128 * count)), 1, 32))
    assert ran.found == ()
    stored = struct.unpack(f"<{64 * count}H", ran.buffers[1])
    for matrix in range(count):
        for lane in range(32):
            group, rank = divmod(lane, 4)
            word = words[32 * matrix + lane]
            for n, element in ((0, word & 0xFFFF), (1, word >> 16)):
                row, column = (2 * rank + n, group) if transposed else (group, 2 * rank + n)
                place = (8 * matrix + row) ^ 8 * (count - 1)
                assert stored[8 * place + column] == element


@pytest.mark.parametrize("width", [1, 8])
def test_the_sanitizers_see_stored_rows(tmp_path: Path, width: int) -> None:
    """A missing barrier, a row beyond the tile, an uninitialized register; other lanes' addresses are not used."""
    race, init = Checks(race=True), Checks(init=True)
    assert findings(tmp_path, width, storing(4, False), race) == []
    assert {f.rule for f in findings(tmp_path, width, storing(4, False, between=""), race)} == {"racecheck"}
    beyond = storing(1, False).replace(f"%w, {ROW}, %tile", f"%w, {2 * ROW}, %tile")
    assert {f.rule for f in findings(tmp_path, width, beyond, Checks())} == {"memcheck"}
    others = "setp.ge.u32 %p, %t, 8;\n@%p add.s64 %row, %row, 4096;\n stmatrix"
    assert findings(tmp_path, width, storing(1, False).replace(" stmatrix", others), Checks()) == []
    added = "add.u32 %w, %w, 1;\nst.global.b32 [%out+0], %w"
    used = storing(1, False).replace("st.global.b32 [%out+0], %w", added)
    assert findings(tmp_path, width, used, init, 128) == []
    (found,) = findings(tmp_path, width, used, init, 64)
    assert (found.rule, found.thread) == ("initcheck", (16, 0, 0))


def test_other_matrices_are_refused_by_name(tmp_path: Path) -> None:
    text = storing(1, False).replace(".m8n8.x1.shared.b16", ".m16n8.x1.trans.shared.b8")
    with pytest.raises(PtxError, match="only matrices of m8n8 with 16-bit elements can be stored"):
        verify(parse(text, "k.ptx"))
