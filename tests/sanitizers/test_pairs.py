"""The twins themselves: enough of them, one line apart, every example of the public suites among them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pairs import RULES, Pair, buggy, read_pairs
from twins import HERE, pairs_of

MODULES = sorted(path.stem for path in HERE.glob("*_pairs.py") if not path.stem.startswith("test_"))
PAIRS = pairs_of(*MODULES)
LEAST = 8
EXAMPLES = """
NVIDIA Memcheck/memcheck_demo.cu: unaligned_kernel
NVIDIA Memcheck/memcheck_demo.cu: out_of_bounds_kernel
NVIDIA Racecheck/block_error.cu
NVIDIA Racecheck/warp_error.cu
NVIDIA Synccheck/divergent_threads.cu
NVIDIA Synccheck/illegal_syncwarp.cu
NVIDIA Initcheck/memset_error.cu
NVIDIA Suppressions/suppressions_initcheck_demo.cu
Oclgrind data-race/broadcast
Oclgrind data-race/global_fence
Oclgrind data-race/global_only_fence
Oclgrind data-race/global_read_write_race
Oclgrind data-race/global_write_write_race
Oclgrind data-race/increment
Oclgrind data-race/intergroup_hidden_race
Oclgrind data-race/intergroup_race
Oclgrind data-race/intragroup_hidden_race
Oclgrind data-race/local_only_fence
Oclgrind data-race/local_read_write_race
Oclgrind data-race/local_write_write_race
Oclgrind data-race/uniform_write_race
Oclgrind atomics/atomic_cmpxchg_false_race
Oclgrind atomics/atomic_cmpxchg_read_race
Oclgrind atomics/atomic_cmpxchg_write_race
Oclgrind atomics/atomic_global_fence_race
Oclgrind atomics/atomic_increment
Oclgrind atomics/atomic_intergroup_race
Oclgrind atomics/atomic_local_fence
Oclgrind atomics/atomic_race_after
Oclgrind atomics/atomic_race_before
Oclgrind atomics/atomic_same_workitem
Oclgrind barrier/barrier_different_instructions
Oclgrind barrier/barrier_divergence
Oclgrind uninitialized/padded_nested_struct_memcpy
Oclgrind uninitialized/padded_struct_alloca_fp
Oclgrind uninitialized/padded_struct_memcpy_fp
Oclgrind uninitialized/partially_uninitialized_fract
Oclgrind uninitialized/private_array_initializer_list
Oclgrind uninitialized/uninitialized_address
Oclgrind uninitialized/uninitialized_global_buffer
Oclgrind uninitialized/uninitialized_local_array
Oclgrind uninitialized/uninitialized_local_ptr
Oclgrind uninitialized/uninitialized_local_variable
Oclgrind uninitialized/uninitialized_private_array
"""
"""Of NVIDIA's compute-sanitizer samples every bug that a kernel has; of Oclgrind's tests those of races, barriers
and uninitialized memory. OpenCL has fences of local and of global memory, where CUDA's barrier orders both: there
the buggy twin has a fence in place of the barrier."""


@pytest.mark.parametrize("rule", RULES)
def test_there_are_enough_of_each_rule(rule: str) -> None:
    """At least eight pairs have a finding of each rule."""
    counted = Counter(rule for pair in PAIRS.values() for rule in pair.rules)
    assert counted[rule] >= LEAST


def test_every_public_example_is_among_them() -> None:
    """Each example has its pair, and a pair names no other."""
    assert {pair.like for pair in PAIRS.values()} - {""} == set(EXAMPLES.strip().split("\n"))


@pytest.mark.parametrize("module", MODULES)
def test_twins_differ_by_one_line_each(module: str) -> None:
    """Between the two texts of a file one line per pair differs, and by more than its comment."""
    pairs = read_pairs(HERE / f"{module}.py")
    clean = pairs[0].module.read_text(encoding="utf-8").split("\n")
    other = buggy("\n".join(clean)).split("\n")
    differing = [n for n, (one, two) in enumerate(zip(clean, other, strict=True), 1) if _code(one) != _code(two)]
    assert differing == [pair.bug for pair in pairs]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_pair_says_what_is_wrong(pair: Pair) -> None:
    """The docstring begins with a sentence."""
    assert pair.summary.endswith(".")


def _code(line: str) -> str:
    """A line without its comment; an indentation counts."""
    return line.partition("  # ")[0].rstrip()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def k():\n    a = 1  # bug: a = 2\n", "has 1 bugs and 0 marks"),
        ("def k():\n    a = 1  # bug: a = 2  # racecheck\n    a = 1  # bug: a = 3\n", "has 2 bugs"),
        ("def k():\n    a = 1  # racecheck\n", "belong to no pair"),
        ("def k():\n    a = 1  # bug: a = (  # racecheck\n", "was never closed"),
    ],
)
def test_a_pair_without_one_bug_and_a_finding_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """A file that says less, or more, than a pair must is an error and no empty test."""
    file = tmp_path / "some_pairs.py"
    file.write_text(text)
    with pytest.raises((ValueError, SyntaxError), match=what):
        read_pairs(file)
