"""Quick code of a kernel and better code have the same sites, because the second replaces the first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

LOADS = 16
TILE = "\n".join(
    [
        *(".version 8.0", ".target sm_80", ".address_size 64", ".visible .entry tile(.param .u64 x) {"),
        ".shared .align 4 .b8 values[4096];",
        ".reg .u32 %t;",
        ".reg .u64 %a<9>;",
        f".reg .f32 %f<{2 * LOADS + 2}>;",
        *("ld.param.u64 %a0, [x];", "mov.u32 %t, %tid.x;", "mul.wide.u32 %a1, %t, 4;", "mov.u64 %a2, values;"),
        *("add.u64 %a3, %a2, %a1;", "add.u64 %a4, %a0, %a1;", "ld.global.f32 %f0, [%a4];"),
        *("st.shared.f32 [%a3], %f0;", "bar.sync 0;"),
        *(
            f"ld.shared.f32 %f{1 + 2 * n}, [%a3+{64 * n}];\nld.shared.f32 %f{2 + 2 * n}, [values+{4 * n}];\n"
            f"fma.rn.f32 %f0, %f{1 + 2 * n}, %f{2 + 2 * n}, %f0;"
            for n in range(LOADS)
        ),
        *("bar.sync 0;", "st.global.f32 [%a4], %f0;", "ret;", "}"),
    ]
)


@pytest.mark.parametrize(
    "checks", [Checks(), Checks(race=True), Checks(init=True), Checks(race=True, init=True)], ids=str
)
def test_loads_of_a_tile_have_the_same_sites_with_and_without_a_version_that_tests_them_at_once(
    checks: Checks,
) -> None:
    module = parse(TILE, "tile.ptx")
    quick, better = (lower(module, "tile", 16, checks, row=32, interiors=interiors) for interiors in (False, True))
    assert (better.ir.text != quick.ir.text) == (checks == Checks())  # with sanitizers, both have that version
    assert better.sites == quick.sites
    assert replace(better, ir=quick.ir) == quick
