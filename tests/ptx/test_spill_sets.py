"""What a barrier saves: only registers that can be had in no cheaper way, and that changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import liveness, spill_sets
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.parser import parse

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<16>;
    .reg .b64 %rd<4>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mul.lo.u32 %r3, %r1, 3;
"""
TAIL = """
    ret;
}
"""
UNIFORM = frozenset({"%rd1", "%r2", "%r4", "%r5"})


def graph(body: str) -> control.Cfg:
    """The control flow of a kernel: the head, then a body."""
    module = parse(HEAD + body + TAIL, "kernel.ptx")
    return control.build(module.functions["k"], "kernel.ptx")


def kept(body: str) -> list[frozenset[str]]:
    """What each barrier need not save, in the order of the text."""
    cfg = graph(body)
    live = liveness.analyze(cfg)
    names: Mapping[int, tuple[str, ...]] = {
        n: tuple(live.names(cfg.blocks[n].successors[0]))
        for n in cfg.order
        if (end := cfg.blocks[n].terminator) is not None and control.is_barrier(end)
    }
    found = spill_sets.unchanged(cfg, live, names, frozenset(names))
    return [found[n] for n in sorted(found)]


@pytest.mark.parametrize(
    ("instruction", "again"),
    [
        ("add.u32 %r4, %r2, 1;", True),
        ("mad.lo.u32 %r4, %r2, %r2, 7;", True),
        ("mov.u32 %r4, %clock;", False),
        ("ld.global.u32 %r4, [%rd1];", False),
        ("add.u32 %r4, %r3, 1;", False),
        ("div.u32 %r4, %r2, 3;", False),
        ("setp.eq.u32 %p1, %r2, 0;\n @%p1 mov.u32 %r4, 1;", False),
        ("mov.u32 %r4, 1;\n add.u32 %r4, %r4, 1;", False),
    ],
)
def test_what_one_pure_instruction_makes_is_made_again(instruction: str, again: bool) -> None:
    """A scalar is made again if one pure instruction makes it of parameters, constants and special registers."""
    found = spill_sets.rematerialized(graph(instruction), UNIFORM)
    assert ("%r4" in found) is again


def test_a_register_is_made_again_after_its_operands() -> None:
    """The instructions for a register begin with those for its operands."""
    cfg = graph("add.u32 %r4, %r2, 1;\n shl.b32 %r5, %r4, 2;")
    chain = spill_sets.rematerialized(cfg, UNIFORM)["%r5"]
    assert [o.opcode for o in chain if isinstance(o, Instruction)] == ["mov", "add", "shl"]


def test_unwritten_since_saved() -> None:
    """A register saved at one barrier and not written since is not saved at the next; a written one is."""
    first, second = kept("""
        mov.u32 %r6, 1;
        bar.sync 0;
        add.u32 %r6, %r6, %r3;
        bar.sync 0;
        add.u32 %r6, %r6, %r3;
        st.global.u32 [%rd1], %r6;
    """)
    assert not {"%r3", "%r6"} & first
    assert "%r3" in second
    assert "%r6" not in second


def test_written_on_one_path() -> None:
    """A write on any path from the last barrier makes the next one save the register."""
    _, second = kept("""
        bar.sync 0;
        setp.lt.u32 %p1, %r1, 5;
        @%p1 bra SKIP;
        mul.lo.u32 %r3, %r1, 7;
    SKIP:
        bar.sync 0;
        st.global.u32 [%rd1], %r3;
    """)
    assert "%r3" not in second
    assert "%rd1" in second


def test_loop() -> None:
    """In a loop around a barrier, what the first round has not saved is saved, though the later rounds have."""
    (only,) = kept("""
        mov.u32 %r7, 0;
    AGAIN:
        bar.sync 0;
        add.u32 %r7, %r7, 1;
        setp.lt.u32 %p1, %r7, 9;
        @%p1 bra AGAIN;
        st.global.u32 [%rd1], %r3;
    """)
    assert not {"%r3", "%r7"} & only


def test_guarded_barrier() -> None:
    """Lanes that a guard keeps from a barrier were not saved there: the next one saves everything."""
    _, second = kept("""
        setp.lt.u32 %p1, %r1, 5;
        @%p1 bar.sync 0;
        bar.sync 0;
        st.global.u32 [%rd1], %r3;
    """)
    assert "%r3" not in second


def test_constants() -> None:
    """A register is a constant if a literal is all that is ever written to it."""
    cfg = graph("mov.u32 %r4, 16;\n mov.u32 %r5, 1;\n mov.u32 %r5, 2;\n mov.u32 %r6, %r1;")
    assert liveness.constants(cfg) == {"%r4": 16}


def test_unread() -> None:
    """A register is unread if no instruction has it as a source, an address or a guard."""
    cfg = graph("atom.global.add.u32 %r4, [%rd1], 1;\n atom.global.add.u32 %r5, [%rd1], %r2;\n mov.u32 %r6, %r5;")
    found = liveness.unread(cfg)
    assert {"%r4", "%r6"} <= found
    assert not {"%r5", "%rd1", "%r2"} & found
