"""Lowered modules as LLVM gets them: well-formed, and fit for the scheduler that they are linked with."""

from __future__ import annotations

import functools

import pytest
from damaged import samples
from llvmlite import binding as llvm

from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower, scheduler
from kcheck.ptx.syntax.parser import parse

CONFIGURATIONS = [
    (1, Checks()),
    (8, Checks()),
    (32, Checks()),
    (1, Checks(race=True, init=True)),
    (2, Checks(init=True)),
    (4, Checks(race=True)),
    (16, Checks(race=True)),
    (8, Checks(init=True)),
    (16, Checks(overflow=True)),
    (32, Checks(race=True, init=True, overflow=True)),
]
"""Lanes per vector, and checks."""


def verified(ir: str) -> llvm.ModuleRef:
    """The module; raises RuntimeError if LLVM finds it malformed."""
    module = llvm.parse_assembly(ir)
    module.verify()
    return module


@functools.cache
def scheduler_of(width: int, checks: Checks) -> llvm.ModuleRef:
    """The verified scheduler for kernels of a width and checks."""
    entry = ".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }"
    program = lower(parse(entry, "k.ptx"), "k", width, checks)
    return verified(scheduler(program.scheduler))


def signatures(module: llvm.ModuleRef, *, defined: bool) -> dict[str, str]:
    """The types of the functions that a module defines, or of those that it only declares, by name."""
    return {f.name: str(f.global_value_type) for f in module.functions if bool(f.is_declaration) is not defined}


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_lowered_kernel_is_well_formed_and_fits_its_scheduler(name: str) -> None:
    """LLVM verifies both modules, each has what the other calls, and both give its parameters the same types."""
    module = parse(samples()[name], f"{name}.ptx")
    for width, checks in CONFIGURATIONS:
        program = lower(module, module.entries[0].name, width, checks)
        kernel, others = verified(program.ir.text), scheduler_of(program.width, checks)
        parts = [verified(part.text) for part in program.ir.divided()]
        halves = [signatures(part, defined=True) for part in parts]
        assert halves[0].keys() | halves[1].keys() == signatures(kernel, defined=True).keys()
        for one, other in ((kernel, others), (others, kernel)):
            defined = signatures(other, defined=True)
            for function, head in signatures(one, defined=False).items():
                if function.startswith("kcheck"):
                    assert defined.get(function) == head, (width, checks)
