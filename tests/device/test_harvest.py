"""Reading off memory what a launch did, on bytes alone."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.device import harvest
from kcheck.generator import expand, materialize
from kcheck.model import LAYOUTS, LEAST_AXES

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {{N: [4]}}
inputs: {{x: {{shape: [N, 3], layouts: [{layout}]}}}}
outputs: {{y: [N]}}
launch: {{args: [x, y], grid: [1], block: [4]}}
"""
KERNEL = "@cuda.jit\ndef op(x, y):\n    pass\n"

OF_TWO_AXES = [name for name in LAYOUTS if LEAST_AXES[name] <= 2]


def allocation(project, layout):
    """The memory of x in a layout."""
    spec = project.spec(SPEC.format(layout=layout), KERNEL, "def op(x):\n    return x\n")
    return materialize(spec, expand(spec, 5)).allocation("x")


@pytest.mark.parametrize("layout", OF_TWO_AXES)
def test_every_byte_outside_the_elements_is_guarded(project, layout):
    """Each byte changed alone: a guard finding where no element lies, a mutated one where one does."""
    memory = allocation(project, layout)
    mask = memory.element_mask()
    for place in range(0, len(memory.buffer), 7):
        after = memory.buffer.copy()
        after[place] ^= 0x10
        guard = harvest.guard_finding(memory, after, "op")
        mutated = harvest.mutated_finding(memory, after, "op")
        assert (guard is None) == bool(mask[place])
        assert (mutated is None) == (not mask[place])
        if mutated is not None:
            assert memory.view(after)[mutated.index].tobytes() != memory.view()[mutated.index].tobytes()


def test_a_guard_finding_says_how_far_outside(project):
    """The byte before the first element, the one after the last, and one in a gap."""
    memory = allocation(project, "strided")
    elements = np.flatnonzero(memory.element_mask())
    first, last = int(elements[0]), int(elements[-1])
    gap = next(i for i in range(first, last) if not memory.element_mask()[i])
    for place, says in ((first - 1, "1 byte before"), (last + 1, "1 byte past"), (gap, "in a gap")):
        after = memory.buffer.copy()
        after[place] ^= 0xFF
        assert says in harvest.guard_finding(memory, after, None).message


@pytest.mark.parametrize("layout", [name for name in OF_TWO_AXES if name != "broadcast"])
def test_values_come_back_as_the_logical_array(project, layout):
    """C-contiguous, and equal to the view."""
    memory = allocation(project, layout)
    made = harvest.values(memory, memory.buffer)
    np.testing.assert_array_equal(made, memory.view())
    assert made.flags.c_contiguous
    assert made.flags.writeable


@pytest.mark.parametrize(("layout", "is_shared"), [("contiguous", True), ("strided", False)])
def test_values_are_copied_only_where_their_layout_is_another(project, layout, is_shared):
    """What was fetched from the device is a copy already."""
    memory = allocation(project, layout)
    fetched = memory.buffer.copy()
    assert np.shares_memory(harvest.values(memory, fetched), fetched) == is_shared


def test_nan_payloads_are_alike_and_signed_zeros_are_not():
    """Bits decide, but for the payload of a NaN."""
    from kcheck.model import DTYPES

    one = np.array([0x7FC00000, 0x00000000], np.uint32).view(np.float32)
    two = np.array([0x7FC00001, 0x00000000], np.uint32).view(np.float32)
    three = np.array([0x7FC00000, 0x80000000], np.uint32).view(np.float32)
    find = lambda a, b: harvest.nondeterministic_finding("y", DTYPES["float32"], a, b, None, "")  # noqa: E731
    assert find(one, two) is None
    assert find(one, three).index == (1,)


def test_values_of_another_order_have_the_digits_of_their_dtype():
    """A float32 is not shown with the digits of a float64."""
    from kcheck.model import DTYPES

    one, two = np.array([0.1], np.float32), np.array([0.2], np.float32)
    found = harvest.nondeterministic_finding("y", DTYPES["float32"], one, two, None, "")
    assert found.message.endswith("[0] is 0.1 in the first and 0.2 in the other")


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_an_output_without_elements_is_alike_in_every_order(shape):
    """A dim may be 0 while another output has elements: the empty one has nothing to differ in."""
    from kcheck.model import DTYPES

    empty = np.empty(shape, np.int32)
    assert harvest.nondeterministic_finding("y", DTYPES["int32"], empty, empty.copy(), None, "") is None


@pytest.mark.parametrize(
    ("launched", "fix"), [(True, "check the mask of the store"), (False, "round the grid up")]
)
def test_an_output_without_a_launch_is_a_matter_of_the_grid(launched: bool, fix: str) -> None:
    """A grid of 0 blocks comes from a division that rounds down, not from a mask in the kernel."""
    found = harvest.unwritten_finding("y", np.ones(3, bool), "k", launched)
    assert found.fix.startswith(fix)
    assert ("nothing was launched" in found.message) is not launched
