"""A case that was drawn once, under its spec as it is now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcheck.generator import Gone, check_fits, expand, materialize, recall, snapshot

SPEC = """
kcheck: 1
op: op
kernel: k.py:f
reference: r.py:f
dims: {M: 1..64, K: [2, 4], P: {expr: M * K}}
constraints: [M * K <= 200]
dtypes: {T: [float32, float16]}
inputs:
  x: {shape: [M, K], layouts: [contiguous, strided]}
  i: {shape: [P], dtype: int32, values: {integers: [0, M - 1]}}
params: {eps: {dtype: float32, values: [1.0e-6, 1.0e-5]}, s: {dtype: float32, expr: 1 / K}}
outputs: {y: [M, K]}
launch: {args: [x, i, y, eps, s], grid: [1], block: [8]}
"""
KERNEL = "@cuda.jit\ndef f(x, i, y, eps, s):\n    pass\n"
REFERENCE = "def f(x, i, eps, s):\n    return x\n"
ROWS = [
    # What is edited in the spec, and what is said; "" where the case is the same one still.
    (("", ""), ""),
    (("op: op", "op: op\ndescription: another\ntags: [new]"), ""),
    (("M: 1..64", "M: {range: 1..64, tile: 16}"), ""),
    (("M: 1..64", "M: 1..128"), ""),
    (("T: [float32, float16]", "T: [bfloat16, float16, float32, float64]"), ""),
    (("layouts: [contiguous, strided]", "layouts: [transposed, strided, contiguous]"), ""),
    (("1.0e-6, 1.0e-5", "1.0e-5, 1.0e-6, 1.0e-4"), ""),
    (("M: 1..64", "M: 65..80"), "dim M = "),
    (("K: [2, 4]", "K: [3]"), "dim K = "),
    (("M * K <= 200", "M * K > 200"), "M * K > 200"),
    (("P: {expr: M * K}", "P: {expr: M * K + 1}"), "dim P"),
    (("T: [float32, float16]", "T: [float64]"), "T = "),
    (("layouts: [contiguous, strided]", "layouts: [offset]"), "x no longer has the layout "),
    (("integers: [0, M - 1]", "integers: [0, M]"), "i is no longer drawn from integers[0, M - 1]"),
    (("1.0e-6, 1.0e-5", "0.5"), "param eps = "),
    (("expr: 1 / K", "expr: 2 / K"), "param s: "),
    (("inputs:", "inputs:\n  w: {shape: []}"), "input w is new"),
    (("dims: {", "dims: {Q: 1..3, "), "dim Q is new"),
]


@pytest.mark.parametrize(("edit", "says"), ROWS, ids=lambda value: value[1] if isinstance(value, tuple) else "")
def test_a_case_outlives_what_does_not_concern_it(project, edit: tuple[str, str], says: str) -> None:
    """Widening a spec leaves a case the same to the byte; what rules it out is named."""
    before = project.spec(SPEC, KERNEL, REFERENCE)
    after = project.spec(SPEC.replace(*edit) if edit[0] else SPEC)
    for seed in range(20):
        case = expand(before, seed)
        if says:
            with pytest.raises(Gone) as gone:
                recall(after, case)
            assert any(says in sentence for sentence in gone.value.changed), gone.value.changed
        else:
            again = recall(after, case)
            one, other = snapshot(materialize(before, case)), snapshot(materialize(after, again))
            for first, second in zip(one.arrays, other.arrays, strict=True):
                assert (first.strides, first.offset, first.guard) == (second.strides, second.offset, second.guard)
                assert first.values is None or first.values.tobytes() == second.values.tobytes()


def test_a_snapshot_is_held_against_the_shapes_of_today(project) -> None:
    """Arrays of another shape or dtype are not handed to a kernel."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    taken = snapshot(materialize(spec, expand(spec, 1)))
    check_fits(spec, taken)
    wider = project.spec(SPEC.replace("x: {shape: [M, K]", "x: {shape: [M, K + 1]"))
    with pytest.raises(Gone, match=r"x was an input of float\d+ \[\d+, \d+\] and is now an input of"):
        check_fits(wider, taken)
    with pytest.raises(Gone, match="array z no longer exists"):
        check_fits(spec, replace(taken, arrays=(*taken.arrays, replace(taken.arrays[0], name="z"))))
