"""A title and an explanation of each rule, for formats that explain rules: SARIF, HTML."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        title: what it finds, in a few words.
        help: why that matters and how to fix it; Markdown.
    """

    title: str
    help: str


RULES: Mapping[str, Rule] = {
    "memcheck": Rule(
        "Invalid memory access",
        "A thread accesses memory outside an array, freed memory, or an address that is not aligned to the "
        "access. On a GPU this corrupts other data or stops the program.\n\n"
        "Compare the index with the size of the array before you use it: `if i < x.size:`.",
    ),
    "guard": Rule(
        "Write outside an array",
        "Bytes next to an array changed during the launch.\n\n"
        "Compare the index with the size of the array before you write.",
    ),
    "racecheck": Rule(
        "Race between two threads",
        "Two threads access the same bytes without synchronization between them, and at least one of them "
        "writes. The result depends on which comes first.\n\n"
        "Put `cuda.syncthreads()` (or `cuda.syncwarp()` within a warp) between the two lines, or use an "
        "atomic operation.",
    ),
    "synccheck": Rule(
        "Invalid barrier",
        "Some threads do not reach a barrier that others wait at, or a mask of `syncwarp`, `shfl` or `vote` "
        "does not match the threads that call it. On a GPU this hangs or is undefined.\n\n"
        "Move the barrier out of the branch, so that every thread of the block reaches it.",
    ),
    "initcheck": Rule(
        "Use of uninitialized memory",
        "A branch, an address or a stored value depends on memory that was never written.\n\n"
        "Write the memory before it is read, for every index and every thread that reads it.",
    ),
    "unwritten": Rule(
        "Elements of an output are not written",
        "The kernel leaves elements of an output as they were before the launch. They hold whatever was in "
        "memory.\n\n"
        "Check that the grid covers the whole output, tails included.",
    ),
    "output": Rule(
        "Wrong number, shape or dtype of outputs",
        "A function returned a different number of outputs, or an output of another shape or dtype.\n\n"
        "Return the arrays that the spec declares, with the dtype of the case.",
    ),
    "mutated": Rule(
        "A modified input",
        "The kernel changed an array that is an input.\n\n"
        "Write to an output instead, or name the input in `mutates:` of the spec if the change is intended.",
    ),
    "overflow": Rule(
        "Integer overflow in an address",
        "32-bit arithmetic wraps around on its way to an address, so the kernel accesses the wrong element "
        "of a large array.\n\n"
        "Compute the index in 64 bits.",
    ),
    "nondeterministic": Rule(
        "Results vary with the schedule",
        "Running blocks, warps or lanes in another order changes the output.\n\n"
        "Look for a race, or for floating-point atomics, whose order of additions varies.",
    ),
    "mismatch": Rule(
        "Output differs from the reference",
        "Elements of an output differ from the reference, computed in float64, by more than rounding "
        "explains.\n\n"
        "Run the replay command, then `kcheck minimize` for the smallest failing case.",
    ),
    "invariant": Rule(
        "A broken invariant",
        "The output violates an invariant of the spec.\n\nRun the replay command to see the elements.",
    ),
    "vacuous": Rule(
        "A spec that a wrong kernel would pass",
        "A kernel that writes zeros, a constant or a copy of an input would pass every case of this spec, "
        "so the spec tests nothing.\n\n"
        "Add value distributions for which the output is not trivial, or an invariant.",
    ),
    "timeout": Rule(
        "The kernel did not finish",
        "The launch took longer than the time limit, or the launcher, the reference or a generator did.\n\n"
        "Look for a loop that does not end; for a slow kernel, raise `--timeout` or choose smaller sizes.",
    ),
    "unchecked": Rule(
        "A sanitizer did not finish",
        "With a sanitizer, the case took longer than half of the time limit. It ran without, so it is not known "
        "whether the sanitizer would find anything.\n\n"
        "Raise `--timeout`, or choose smaller sizes.",
    ),
    "launch": Rule(
        "A failed launch",
        "The kernel could not be launched, or raised an exception while it ran.",
    ),
    "compile": Rule(
        "The kernel does not compile",
        "The compiler rejected the kernel for these types.",
    ),
    "worker": Rule(
        "A case that ends the process",
        "With `--jobs`, two worker processes ended while they ran this case.\n\n"
        "Look for code that exits the process or runs out of memory.",
    ),
    "reference": Rule(
        "The reference cannot be used",
        "The reference raised an exception or returned something other than the declared outputs, so the "
        "case was not checked.\n\n"
        "Fix the reference.",
    ),
    "spec": Rule(
        "An invalid spec",
        "The spec cannot be run.\n\n`kcheck validate` lists all errors of all specs.",
    ),
    "unsupported": Rule(
        "Not supported by this device",
        "The device cannot run the kernel. This is a limit of the device and not a bug in the kernel.",
    ),
    "calibration": Rule(
        "No calibration for this case",
        "`tolerance: calibrated` needs measured errors.\n\nRun `kcheck calibrate` on a correct kernel.",
    ),
    "artifact": Rule(
        "The compiled kernel exceeds a limit",
        "The compiled kernel violates `artifact:` of the spec: registers, spills, local memory, patterns.\n\n"
        "`kcheck lint` shows the numbers.",
    ),
    "f64-in-f32": Rule(
        "Unintended float64 arithmetic",
        "Most GPUs compute in float64 at a small fraction of the float32 rate.\n\n"
        "Convert the constant or the operand: `np.float32(0.5)`.",
    ),
    "uncoalesced": Rule(
        "Uncoalesced memory access",
        "The lanes of a warp access more memory sectors than necessary.\n\n"
        "Let neighboring threads access neighboring elements.",
    ),
    "bank-conflict": Rule(
        "Shared memory bank conflict",
        "Lanes of a warp access different words in one bank of shared memory, one after another.\n\n"
        "Pad the rows of the shared array by one element.",
    ),
    "division": Rule(
        "A division in a loop",
        "Divisions are slow.\n\nMultiply by the reciprocal outside the loop.",
    ),
    "printf": Rule(
        "A kernel that prints",
        "Printing is slow and serializes threads.\n\nRemove it.",
    ),
    "spills": Rule(
        "Spilled registers",
        "Registers are spilled to local memory, which is off-chip.",
    ),
    "local-array": Rule(
        "An array in local memory",
        "Local memory is off-chip and slow.",
    ),
}
"""Every rule by its id."""


def rule(name: str) -> Rule:
    """The rule with this id; an unknown rule has its id as the title."""
    return RULES.get(name) or Rule(name, f"A finding of `{name}`.")
