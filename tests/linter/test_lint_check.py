"""Thresholds of `artifact` against compiled kernels."""

import dataclasses

import pytest

from kcheck.linter.check import check
from kcheck.model import Artifact, Span
from kcheck.model.compiled import ArrayType, CompiledKernel, Resources

PTX = """\
.visible .entry k(.param .u64 p)
{
	.reg .f64 	%fd<3>;
	.loc	1 9 0
	mov.f64 %fd1, 0d3FF0000000000000;
	.loc	1 11 4
	add.f64 %fd2, %fd1, %fd1;
	ret;
}
.version 8.0
.target sm_80
.file 1 "kernels/k.py"
"""
KERNEL = CompiledKernel(
    kernel="k",
    place=Span("kernels/k.py", 8, 1),
    signature=(ArrayType("float32", 2, "A"),),
    target="sm_80",
    entry="k",
    ptx=PTX,
    resources=Resources(registers=40, spill_stores=4, spill_loads=12, stack=400, shared=1024, constant=0),
)
SPEC_PLACE = Span("specs/k.yaml", 30, 1)


@pytest.mark.parametrize(
    ("threshold", "at_limit", "unit"),
    [
        ("max_registers", 40, "registers per thread"),
        ("max_spills", 16, "bytes of spill stores and loads"),
        ("max_local_bytes", 400, "bytes of local memory per thread"),
        ("max_shared_bytes", 1024, "bytes of static shared memory"),
        ("max_instructions", 3, "PTX instructions"),
    ],
)
def test_a_threshold_is_the_largest_value_allowed(threshold: str, at_limit: int, unit: str) -> None:
    """The limit itself passes; one less is a finding that says measured, unit, limit, types and target."""
    assert check(Artifact(SPEC_PLACE, **{threshold: at_limit}), [KERNEL]) == ()
    (finding,) = check(Artifact(SPEC_PLACE, **{threshold: at_limit - 1}), [KERNEL])
    assert finding.rule == "artifact"
    assert finding.kernel == "k"
    assert finding.message.startswith(f"{at_limit:,} {unit}, the limit is {at_limit - 1:,}")
    assert "(sm_80, float32[:,:] A)" in finding.message


def test_a_forbidden_pattern_names_both_lines() -> None:
    """The first match is shown with its PTX line, and placed at the Python line it was compiled from."""
    (finding,) = check(Artifact(SPEC_PLACE, forbidden_patterns=(r"\.f64\b.*%fd2",)), [KERNEL])
    assert "`add.f64 %fd2, %fd1, %fd1;`, PTX line 7" in finding.message
    assert finding.place == Span("kernels/k.py", 11, 1)


def test_a_required_pattern_must_match_in_the_entry() -> None:
    """A pattern that is there passes, one that is not is a finding."""
    assert check(Artifact(SPEC_PLACE, required_patterns=(r"add\.f64",)), [KERNEL]) == ()
    (finding,) = check(Artifact(SPEC_PLACE, required_patterns=(r"fma\.rn\.f32",)), [KERNEL])
    assert r"`fma\.rn\.f32`" in finding.message


def test_one_offence_in_many_specialisations_is_one_finding_of_the_worst() -> None:
    """The finding counts the specializations and names the one that is worst."""
    worse = dataclasses.replace(
        KERNEL,
        target="sm_90",
        resources=Resources(registers=90, spill_stores=0, spill_loads=0, stack=0, shared=0, constant=0),
    )
    (finding,) = check(Artifact(SPEC_PLACE, max_registers=32), [KERNEL, worse, KERNEL])
    assert finding.count == 3
    assert finding.message.startswith("90 registers")
    assert "sm_90" in finding.message


def test_a_specialisation_that_does_not_compile_is_a_finding() -> None:
    """What the compiler said is the finding; nothing else is measured."""
    broken = dataclasses.replace(
        KERNEL, problem="does not compile: TypingError: no", ptx="", entry="", resources=None
    )
    (finding,) = check(Artifact(SPEC_PLACE, max_registers=1, required_patterns=("x",)), [broken])
    assert "does not compile: TypingError: no" in finding.message
