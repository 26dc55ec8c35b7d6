"""Which variables of a module are saved before a launch, and restored for the next one."""

from __future__ import annotations

from kcheck.device.kinds.modules import used_variables

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
