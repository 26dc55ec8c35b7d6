"""The sizes of a call follow from the shapes of its arrays."""

from __future__ import annotations

from typing import Any

import pytest

import kcheck
from kcheck.errors import UserError
from kcheck.generator import sizes_of_call

SPEC = kcheck.Spec(
    "op",
    dims={"M": range(1, 9), "N": range(1, 9), "K": {"expr": "2 * N"}, "S": range(1, 4)},
    inputs={"x": ["M", "N"], "w": ["K"]},
    outputs={"y": ["M"]},
    reference=lambda x, w, S: x[:, 0],
)._model


def test_shapes_and_given_dims_make_every_size() -> None:
    assert sizes_of_call(SPEC, {"x": (3, 4), "w": (8,)}, {"S": 2}) == {"M": 3, "N": 4, "K": 8, "S": 2}


@pytest.mark.parametrize(
    ("shapes", "given", "message"),
    [
        ({"x": (3,), "w": (8,)}, {"S": 1}, r"the input x has shape \[3\], but the spec declares \[M, N\]"),
        ({"x": (3, 4), "w": (8,)}, {"S": 1, "M": 5}, "M is 5 elsewhere and 3 in the input x"),
        ({"x": (3, 4), "w": (8,)}, {}, "no input shows the size S; pass it with the inputs"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(shapes: Any, given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sizes_of_call(SPEC, shapes, given)
