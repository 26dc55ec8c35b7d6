"""The corpus: the project's correct kernels, and the buggy twins of ``kernels/buggy/manifest.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kcheck.model import OpSpec
from kcheck.specfile import load_spec
from kcheck.symbolic import evaluate, parse

ROOT = Path(__file__).resolve().parents[2]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SUFFIXES = (".cu", ".py")
"""Of kernels: CUDA C++; numba.cuda and Triton. A kernel in CUDA C++ may have a launcher in Python beside it."""
MANIFEST = ROOT / "kernels" / "buggy" / "manifest.yaml"

CLASSES = (
    "tail-mask leak",
    "accumulator overwritten",
    "missing scale",
    "online-softmax without rescale",
    "dropped factor",
    "dropped sqrt",
    "confused parameter",
    "off-by-one bound",
    "wrong stride",
    "ignored layout",
    "missing barrier",
    "barrier in a branch",
    "reduction over a partial warp",
    "wrong identity",
    "NaN swallowed",
    "-inf minus -inf",
    "fp16 overflow in a square",
    "E[x^2]-E[x]^2 under offset",
    "sentinel too small",
    "integer wrap",
    "int32 index",
    "floor-divided grid",
    "unguarded tile",
    "loop bound from gridDim",
    "ties",
    "size-0",
    "rounding half",
    "unwritten output",
    "input mutated",
    "in-place aliasing",
    "dropped last tile",
    "halo not loaded",
    "output not zeroed",
    "non-atomic update",
    "16-bit accumulation",
    "missing wait",
    "stage count",
    "one configuration",
)
"""Classes of bugs that people and language models write in kernels; each twin has one of these."""


@dataclass(frozen=True, slots=True)
class Twin:
    """One entry of the manifest.

    Attributes:
        name: of the twin: its kernel file, its spec and its op.
        of: the control that it is a copy of.
        kind: one of :data:`CLASSES`.
        harmless: a condition over the dims under which the bug has no effect; empty if there is none.
        caught_by: rules, at least one of which should find it; wrong values are ``tolerance``.
        source: the address of the public report that it re-creates, or empty.
    """

    name: str
    of: str
    kind: str
    bug: str
    trigger: str
    harmless: str
    caught_by: tuple[str, ...]
    source: str
    public: str

    @property
    def kernel(self) -> Path:
        """The buggy kernel's file; missing if the bug is in the spec's ``launch``."""
        written = [ROOT / "kernels" / "buggy" / f"{self.name}{suffix}" for suffix in SUFFIXES]
        return next((path for path in written if path.is_file()), written[0])

    @property
    def spec(self) -> Path:
        return ROOT / "specs" / "buggy" / f"{self.name}.yaml"

    def is_harmless(self, dims: Mapping[str, int]) -> bool:
        """Whether the manifest declares the twin correct at these sizes."""
        return bool(self.harmless) and bool(evaluate(parse(self.harmless), dims))


@cache
def entries() -> dict[str, dict[str, Any]]:
    """The manifest as written."""
    written: dict[str, dict[str, Any]] = yaml.load(MANIFEST.read_text(encoding="utf-8"), _LOADER)
    return written


@cache
def twins() -> tuple[Twin, ...]:
    """Every buggy twin, in the order of the manifest."""
    return tuple(
        Twin(
            name,
            entry["of"],
            entry["class"],
            entry["bug"],
            entry["trigger"],
            str(entry.get("harmless", "")),
            tuple(entry["caught_by"]),
            entry.get("source", ""),
            entry.get("public", ""),
        )
        for name, entry in entries().items()
    )


def controls() -> tuple[str, ...]:
    """The names of the correct ops: one spec each."""
    return tuple(sorted(path.stem for path in (ROOT / "specs").glob("*.yaml")))


def control_spec(name: str) -> OpSpec:
    """The spec of a correct op."""
    return load_spec(ROOT / "specs" / f"{name}.yaml")
