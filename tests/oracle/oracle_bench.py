"""Specs, arrays and outcomes made by hand, so that the oracle is tested without a parser and without a device."""

from __future__ import annotations

import textwrap
from types import MappingProxyType
from typing import Any

import numpy as np

from kcheck.generator import CaseArrays
from kcheck.generator.layouts import allocate, geometry
from kcheck.model import (
    DTYPES,
    SANITIZERS,
    Bounds,
    Case,
    Compare,
    Expression,
    FunctionRef,
    Input,
    Invariant,
    OpSpec,
    Outcome,
    Output,
    Param,
    Span,
    Tolerance,
)
from kcheck.rng import Xorshift128Plus

HERE = Span("specs/op.yaml", 3, 1)
EMPTY: Any = MappingProxyType({})


def invariant(kind: str, array: str | None = None, axis: int = -1, text: str | None = None) -> Invariant:
    return Invariant(kind, HERE, array, axis, None if text is None else Expression(text, HERE))  # type: ignore[arg-type]


class Bench:
    """A spec with one reference file under a root of its own."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.files = 0

    def spec(
        self,
        source: str,
        inputs: dict[str, str],
        outputs: dict[str, str],
        *,
        tolerance: str | dict[str, Bounds] = "conditioned",
        nan: str = "match",
        signed_zero: bool = False,
        invariants: tuple[Invariant, ...] = (),
        compute: str | None = None,
        params: dict[str, str] = EMPTY,
        sanitize: dict[str, str] = EMPTY,
    ) -> OpSpec:
        """``inputs``, ``outputs`` and ``params`` are dtypes by name; the reference is the function ``ref``."""
        self.files += 1
        path = f"references_{self.files}.py"
        text = "import numpy as np\n" + textwrap.dedent(source)
        (self.root / path).write_text(text, encoding="utf-8")
        by_dtype = tolerance if isinstance(tolerance, dict) else {}
        kind = "fixed" if isinstance(tolerance, dict) else tolerance
        return OpSpec(
            path="specs/op.yaml",
            root=str(self.root),
            op="op",
            span=HERE,
            description="",
            tags=(),
            dims=EMPTY,
            constraints=(),
            dtypes=EMPTY,
            compute=compute,
            inputs={name: Input(name, (), dtype, (), ("contiguous",), HERE) for name, dtype in inputs.items()},
            params={name: Param(name, dtype, None, (), HERE) for name, dtype in params.items()},
            outputs={
                name: Output(name, (), dtype, ("contiguous",), None, HERE) for name, dtype in outputs.items()
            },
            kernel=None,
            launch=None,
            launcher=None,
            reference=FunctionRef(path, "ref", Span("specs/op.yaml", 9, 12)),
            tolerance=Tolerance(kind, by_dtype, HERE),  # type: ignore[arg-type]
            compare=Compare(nan, signed_zero),  # type: ignore[arg-type]
            invariants=invariants,
            sanitize={**SANITIZERS, **sanitize},  # type: ignore[arg-type]
            allow_races=(),
            mutates=(),
            deterministic=None,
            artifact=None,
            count=1,
            seed=0,
            examples=(),
        )

    def arrays(
        self, spec: OpSpec, values: dict[str, Any], shapes: dict[str, tuple[int, ...]], seed: int = 7, **dims: int
    ) -> CaseArrays:
        """``values`` of the inputs and params, ``shapes`` of the outputs; dims by keyword."""
        case = Case(spec.path, spec.op, "seed", seed, dims, {}, {}, {}, {})
        allocations = {}
        for name, array in (*spec.inputs.items(), *spec.outputs.items()):
            dtype = DTYPES[array.dtype]
            content = None if name in spec.outputs else np.asarray(values[name]).astype(dtype.numpy)
            shape = shapes[name] if content is None else content.shape
            where = geometry(shape, dtype.itemsize, "contiguous", Xorshift128Plus(1))
            role: Any = "output" if content is None else "input"
            allocations[name] = allocate(name, role, dtype, shape, where, 0xFF, content)
        params = {name: np.dtype(param.dtype).type(values[name]) for name, param in spec.params.items()}
        return CaseArrays(case, allocations, params, {})

    def outcome(self, arrays: CaseArrays, outputs: dict[str, Any], **more: Any) -> Outcome:
        """``outputs`` are cast to their declared dtypes."""
        with np.errstate(all="ignore"):
            cast = {
                name: np.asarray(out).astype(arrays.allocation(name).dtype.numpy) for name, out in outputs.items()
            }
        return Outcome(arrays.case, "simulator", cast, more.pop("unwritten", {}), **more)
