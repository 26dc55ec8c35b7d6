"""Specs built in Python, so that these tests stand on the model alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kcheck.model import (
    SANITIZERS,
    Choices,
    Compare,
    Dim,
    Distribution,
    Expression,
    FunctionRef,
    Input,
    OpSpec,
    Output,
    Param,
    Range,
    Span,
    Tolerance,
    TypeVariable,
)

PLACE = Span("specs/op.yaml", 3, 5)
EMPTY = OpSpec(
    path="specs/op.yaml",
    root="/nowhere",
    op="op",
    span=PLACE,
    description="",
    tags=(),
    dims={},
    constraints=(),
    dtypes={"T": TypeVariable("T", ("float32",), PLACE)},
    compute=None,
    inputs={},
    params={},
    outputs={},
    kernel=None,
    launch=None,
    launcher=None,
    reference=FunctionRef("references/op.py", "op", PLACE),
    tolerance=Tolerance("conditioned", {}, PLACE),
    compare=Compare(),
    invariants=(),
    sanitize=dict(SANITIZERS),
    allow_races=(),
    mutates=(),
    deterministic=None,
    artifact=None,
    count=100,
    seed=0,
    examples=(),
)


def expression(value: object) -> Expression:
    return Expression(str(value), PLACE)


def domain(value: Any) -> Choices | Range | Expression:
    if isinstance(value, str):
        return expression(value)
    if isinstance(value, list):
        return Choices(tuple(value))
    return Range(*value)


def distribution(value: Any) -> Distribution:
    return value if isinstance(value, Distribution) else Distribution(value, None, PLACE)


def build(
    dims: dict[str, Any],
    inputs: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
    constraints: tuple[str, ...] = (),
    dtypes: tuple[str, ...] = ("float32",),
    params: dict[str, Any] | None = None,
    **rest: Any,
) -> OpSpec:
    """A spec from short forms: dims as (low, high), (low, high, tiles), [list] or "expression"."""
    arrays = {
        name: Input(
            name,
            tuple(expression(extent) for extent in fields.get("shape", ())),
            fields.get("dtype", "T"),
            tuple(distribution(value) for value in fields.get("values", ())),
            tuple(fields.get("layouts", ("contiguous",))),
            PLACE,
        )
        for name, fields in (inputs or {}).items()
    }
    written = {
        name: Output(
            name,
            tuple(expression(extent) for extent in fields.get("shape", ())),
            fields.get("dtype", "T"),
            tuple(fields.get("layouts", ("contiguous",))),
            fields.get("alias"),
            PLACE,
        )
        for name, fields in (outputs or {}).items()
    }
    scalars = {
        name: Param(
            name,
            fields.get("dtype", "float32"),
            expression(fields["expr"]) if "expr" in fields else None,
            tuple(fields.get("values", ())),
            PLACE,
        )
        for name, fields in (params or {}).items()
    }
    return replace(
        EMPTY,
        dims={name: Dim(name, domain(value), PLACE) for name, value in dims.items()},
        inputs=arrays,
        outputs=written,
        constraints=tuple(expression(text) for text in constraints),
        dtypes={"T": TypeVariable("T", dtypes, PLACE)},
        params=scalars,
        **rest,
    )


@pytest.fixture(name="build")
def builder() -> Callable[..., OpSpec]:
    return build
