"""Machine code as nvdisasm lists it: functions, instructions, kinds, patterns."""

from __future__ import annotations

import dataclasses

import pytest

from kcheck.linter.check import check, unchecked
from kcheck.linter.measure import measure
from kcheck.linter.sass_families import count_sass, sass_family
from kcheck.linter.sass_text import SassInstruction, find_function
from kcheck.model import Artifact, Span
from kcheck.model.compiled import CompiledKernel

LISTING = """\
	.target	sm_80

//--------------------- .text.slow_path            --------------------------
	.section	.text.slow_path,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=24"
	.align	128
.text.slow_path:
        .type           slow_path,@function
slow_path:
        /*0000*/                   DADD R2, R2, R4 ;
        /*0010*/                   RET.ABS.NODEC R20 0x0 ;
.L_x_1:

//--------------------- .text.k              --------------------------
	.section	.text.k,"ax",@progbits
        .global         k
        .type           k,@function
k:
.text.k:
	//## File "/project/kernels/k.py", line 9
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_TID.X ;                 /* 0x0000000000007919 */
                                                                     /* 0x000e220000002100 */
	//## File "/project/kernels/k.py", line 11
        /*0020*/              @!P0 FFMA R4, |R4|.reuse, 1.5, RZ ;
        /*0030*/             @!UP0 DADD R2,   R2, c[0x0][0x160] ;
	//## File "/elsewhere/math.py", line 70
        /*0040*/                   CALL.ABS.NOINC `(slow_path) ;
        /*0050*/                   LDL R3, [R1+0x8] ;
        /*0060*/                   EXIT ;
.L_x_3:
        /*0070*/                   BRA `(.L_x_3) ;
        /*0080*/                   NOP;
        /*0090*/                   NOP ;
.L_x_4:

	.section	.nv.shared.k,"aw",@nobits
        /*0000*/ 	.byte	0x00 ;
"""
KERNEL = CompiledKernel(
    kernel="k",
    place=Span("/project/kernels/k.py", 8, 1),
    signature=(),
    target="sm_80",
    entry="k",
    ptx=".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n",
    sass=LISTING,
)
ANYWHERE = Span("specs/k.yaml", 30, 1)


def test_a_function_is_its_own_instructions() -> None:
    """Labels, encodings, directives, padding and other functions are left out; blanks are made single."""
    found = find_function(LISTING, "k")
    assert found is not None
    assert found.text.splitlines() == [
        "MOV R1, c[0x0][0x28] ;",
        "S2R R0, SR_TID.X ;",
        "@!P0 FFMA R4, |R4|.reuse, 1.5, RZ ;",
        "@!UP0 DADD R2, R2, c[0x0][0x160] ;",
        "CALL.ABS.NOINC `(slow_path) ;",
        "LDL R3, [R1+0x8] ;",
        "EXIT ;",
        "BRA `(.L_x_3) ;",
    ]
    assert [(i.address, i.line) for i in found.instructions][:4] == [(0, 9), (16, 9), (32, 11), (48, 11)]
    assert found.instructions[4].file == "/elsewhere/math.py"
    slow = find_function(LISTING, "slow_path")
    assert slow is not None
    assert [i.opcode for i in slow.instructions] == ["DADD", "RET.ABS.NODEC"]
    assert [(i.file, i.line) for i in slow.instructions] == [("", 0)] * 2


@pytest.mark.parametrize("name", ["", "K", "k2", "slow", ".text.k"])
def test_a_function_that_is_not_there_is_none(name: str) -> None:
    """A part of a name is not the name."""
    assert find_function(LISTING, name) is None


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("FFMA R4, R4, R5, RZ ;", "float32"),
        ("@P1 HFMA2.MMA R4, R4, R5, R6 ;", "float16"),
        ("HFMA2.MMA R4, -RZ, RZ, 0, 0 ;", "move"),
        ("HFMA2 R9, -RZ, RZ, 1.875, 0 ;", "move"),
        ("HADD2.F32 R4, -RZ, R4.H0_H0 ;", "convert"),
        ("HADD2.F32 R4, R5.H0_H0, R4.H0_H0 ;", "float16"),
        ("@!UP0 DFMA R4, R4, R5, R6 ;", "float64"),
        ("DSETP.GEU.AND P0, PT, R2, R4, PT ;", "compare"),
        ("HMMA.16816.F32 R4, R8, R12, R4 ;", "tensor"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], !UPT ;", "tensor"),
        ("MUFU.EX2 R4, R4 ;", "special function"),
        ("IMAD.WIDE R2, R0, R3, c[0x0][0x160] ;", "integer"),
        ("IMAD.MOV.U32 R2, RZ, RZ, R3 ;", "move"),
        ("UIADD3 UR4, UR4, 0x1, URZ ;", "integer"),
        ("USEL UR4, URZ, 0x1, !UP0 ;", "compare"),
        ("I2F.F64 R4, R2 ;", "convert"),
        ("LDG.E.128 R4, [R2.64] ;", "global memory"),
        ("LDS.U.64 R4, [R2] ;", "shared memory"),
        ("STL [R1+0x4], R3 ;", "local memory"),
        ("ULDC.64 UR4, c[0x0][0x118] ;", "constant memory"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R5 ;", "atomic"),
        ("SHFL.BFLY PT, R3, R2, 0x10, 0x1f ;", "warp"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0 ;", "barrier"),
        ("@P0 BRA `(.L_x_6) ;", "branch"),
        ("CALL.REL.NOINC `(slow) ;", "call"),
        ("FROBNICATE R1 ;", "other"),
        (";", "other"),
    ],
)
def test_kinds_of_instructions(text: str, family: str) -> None:
    """By opcode, whatever the predicate; the uniform datapath's as the lanes'; a constant loaded is a move."""
    assert sass_family(SassInstruction(0, text, "", 0)) == family


def test_counts_are_of_the_kernel() -> None:
    """Every instruction is of one kind; a kernel's metrics have them where it was disassembled."""
    found = find_function(LISTING, "k")
    assert found is not None
    counts = count_sass(found)
    assert counts.instructions == 8 == sum(counts.families.values())
    assert counts.families == {
        "float32": 1,
        "float64": 1,
        "move": 2,
        "local memory": 1,
        "branch": 2,
        "call": 1,
    }
    assert measure(KERNEL).sass == counts
    assert measure(dataclasses.replace(KERNEL, sass="")).sass is None


def test_a_forbidden_sass_pattern_names_the_instruction_and_the_line_of_python() -> None:
    """The first match, how many there are, its address; the line only where it is the kernel's own file."""
    (finding,) = check(Artifact(ANYWHERE, forbidden_sass_patterns=(r"\bR[24]\b",)), [KERNEL])
    assert finding.message == (
        r"forbidden pattern `\bR[24]\b` in the SASS, 4 times: "
        "`@!P0 FFMA R4, |R4|.reuse, 1.5, RZ ;`, at 0x0020 (sm_80)"
    )
    assert finding.place == Span("/project/kernels/k.py", 11, 1)
    (finding,) = check(Artifact(ANYWHERE, forbidden_sass_patterns=("(?m)^LDL|^CALL",)), [KERNEL])
    assert "`CALL.ABS.NOINC `(slow_path) ;`, at 0x0040" in finding.message
    assert finding.place == KERNEL.place


def test_a_required_sass_pattern_must_match_in_the_kernel() -> None:
    """What only a function that it calls has does not count; neither does what its PTX has."""
    assert check(Artifact(ANYWHERE, required_sass_patterns=(r"FFMA.*RZ",)), [KERNEL]) == ()
    for pattern in ("NODEC", r"ret;", "NOP", r"\.text"):
        (finding,) = check(Artifact(ANYWHERE, required_sass_patterns=(pattern,)), [KERNEL])
        assert finding.message.startswith("no SASS matches the required pattern")


def test_patterns_over_ptx_do_not_see_machine_code() -> None:
    """And the same pattern over both is two offences."""
    assert check(Artifact(ANYWHERE, forbidden_patterns=("FFMA",)), [KERNEL]) == ()
    both = Artifact(ANYWHERE, required_patterns=("HMMA",), required_sass_patterns=("HMMA",))
    assert len(check(both, [KERNEL])) == 2


def test_what_was_not_disassembled_is_not_judged_and_said_so() -> None:
    """No verdict, and a note with the reason, each reason once; none where nobody asked."""
    wants = Artifact(ANYWHERE, required_sass_patterns=("HMMA",))
    absent = dataclasses.replace(KERNEL, sass="", no_sass="nvdisasm is not installed; pip install it")
    assert check(wants, [absent]) == ()
    said = "SASS patterns were not checked: nvdisasm is not installed; pip install it"
    assert unchecked(wants, [absent, absent, KERNEL]) == (said,)
    other = dataclasses.replace(KERNEL, entry="k2")
    assert unchecked(wants, [other]) == ("SASS patterns were not checked: nvdisasm lists no code for k2",)
    assert unchecked(wants, [dataclasses.replace(absent, no_sass="", problem="does not compile")]) == ()
    assert unchecked(Artifact(ANYWHERE, required_patterns=("x",)), [absent]) == ()
