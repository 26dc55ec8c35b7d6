"""Which variables of a module are saved before a launch, and restored for the next one; which are left out."""

from __future__ import annotations

from kcheck.device.kinds.unused import without_unused
from kcheck.device.modules import used_variables

PTX = """
.visible .global .align 4 .u32 counter;
.global .align 8 .u64 table[1] = {generic(entries)};
.global .align 4 .u32 entries[2] = {1, 2};
.global .align 1 .b8 _ZN4cuda3std3__47nulloptE[1];
.global .align 4 .u32 counter_of_another_kernel;

.visible .entry count()
{
    .reg .u64 %a;
    ld.global.u64 %a, [table];
    atom.global.add.u32 %r, [counter], 1;
    ret;
}
"""


def test_a_variable_that_nothing_mentions_cannot_change() -> None:
    """Headers of CUB declare a thousand such constants, which took most of the time of a launch."""
    assert used_variables(PTX) == ["counter", "table", "entries"]


HEADERS = """
.visible .global .align 4 .u32 _ZN4cuda3std3__45shownE;
.global .align 1 .u8 _ZN4cuda3std3__417integral_constantIbLb0EE5valueE;
.global .align 8 .u64 _ZN3cub8detail9LIMITE = 16;
.global .align 1 .b8 _ZN43_INTERNAL_00000000_7_sort_cu_884dbc51_307034cuda3std3__45__cpo4swapE[1];
.global .align 8 .u64 _ZN6thrust5tableE[2] = {generic(_ZN3cub5firstE), 0};
.global .align 4 .u32 _ZN3cub5firstE = 1;
.global .align 8 .u64 _ZN4cuda3std3__44usedE = 2;
.global .align 4 .u32 _ZN4mine7counterE;
.global .align 4 .u32 counter;

.visible .entry f()
{
    ld.global.u64 %a, [_ZN4cuda3std3__44usedE];
    ld.global.u64 %a, [_ZN6thrust5tableE];
    ret;
}
"""


def test_variables_of_headers_that_nothing_uses_are_left_out() -> None:
    """A file's own variables stay, used or not, since a spec may name them; so do lines."""
    kept = without_unused(HEADERS)
    gone = [line for line, now in zip(HEADERS.splitlines(), kept.splitlines(), strict=True) if line != now]
    assert [line.split(" = ")[0].split()[-1].rstrip(";") for line in gone] == [
        "_ZN4cuda3std3__417integral_constantIbLb0EE5valueE",
        "_ZN3cub8detail9LIMITE",
        "_ZN43_INTERNAL_00000000_7_sort_cu_884dbc51_307034cuda3std3__45__cpo4swapE[1]",
    ]
    assert without_unused(PTX.replace("_ZN4cuda3std3__47nulloptE", "_ZN4mine3std7nulloptE")).count(".global") == 7
