"""What was decided about kernels, kept on disk for later processes.

Two kinds of entries are in one folder of the cache:

- For a compiled kernel, why its checks are not proved. The key is everything that the answer depends on: the PTX,
  what the spec says, how it is launched, and the code of the prover and of the solver. An answer that the clock
  cut short is not kept.
- For a spec, its verdicts, by the files of the spec: a run and an editor read them without compiling anything.

That a case refutes a check is never taken from here: the sizes that the solver proposed are kept, and the case
runs again.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import kcheck.device
import kcheck.driver
import kcheck.generator
import kcheck.model
import kcheck.prover
import kcheck.ptx
import kcheck.specfile
import kcheck.symbolic
from kcheck.cpu.cache import ObjectCache
from kcheck.driver.install import settings
from kcheck.model import OpSpec
from kcheck.prover.proofs import Proof, Proved, Reason
from kcheck.runner.provenance import digests, versions
from kcheck.span import Span
from kcheck.version import code_digest

if TYPE_CHECKING:
    from kcheck.prover.variants import SpecVariant

_FORMAT = 1
_ASSUMED = (
    *("op", "dims", "constraints", "dtypes", "inputs", "params", "outputs", "kernel", "launch", "launcher"),
    *("function", "variables", "allow_races", "mutates", "examples", "seed", "compile", "debug_code", "memory"),
)
"""The parts of a spec on which a proof depends, and the cases that are drawn for it."""
_VARIABLES = ("NUMBA_", "TRITON_", "CUDA_", "KCHECK_CC")
"""The environment variables with these prefixes may change what a compiler makes, except _OTHERS."""
_OTHERS = frozenset({"NUMBA_ENABLE_CUDASIM", "TRITON_CACHE_DIR", "CUDA_VISIBLE_DEVICES"})
"""A device sets the first two."""


class KeptProofs:
    """The folder of the cache with what was decided."""

    def __init__(self) -> None:
        self._cache = ObjectCache(settings(os.environ).cache / "proofs")

    def key(self, variant: SpecVariant, failed: Iterable[str]) -> str:
        """What the answer for one compiled kernel depends on.

        Args:
            failed: the checks that need no answer.
        """
        launch, case = variant.launch, variant.arrays.case
        parts = (
            *(variant.dtypes, variant.layouts, variant.params, variant.sizes, variant.slots, variant.classes),
            *(variant.spans, launch.entry, launch.grid, launch.block, launch.shared),
            *(case.dims, case.params, case.dtypes, case.layouts, sorted(failed)),
            () if variant.way is None else (variant.way.number, variant.way.told),
        )
        return "\0".join((_tools(), _assumed(variant.spec), _text(parts), launch.module.file, launch.module.text))

    def load(self, key: str) -> Mapping[str, Sequence[Reason]] | None:
        """The reasons why checks of a kernel are not proved; None if they are not known."""
        found: Mapping[str, Sequence[Reason]] | None = self._cache.load(key)
        return found

    def store(self, key: str, reasons: Mapping[str, Sequence[Reason]]) -> None:
        """Keep the reasons for a kernel."""
        self._cache.store(key, {name: tuple(found) for name, found in reasons.items()})

    def record(self, proved: Proved) -> None:
        """Keep the verdicts of a spec."""
        self._cache.store(_of_files(proved.spec), proved.proofs)

    def recorded(self, spec: OpSpec) -> tuple[Proof, ...]:
        """The verdicts of a spec. Empty if they are not known, or if a file of the spec, what the spec says, or a
        tool has changed since."""
        found: tuple[Proof, ...] | None = self._cache.load(_of_files(spec)) if self._cache.exists else None
        return found or ()


def _of_files(spec: OpSpec) -> str:
    variables = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES) and name not in _OTHERS
    )
    return f"spec {_tools()} {_assumed(spec)} {variables} {spec.root} {spec.path} {sorted(digests(spec).items())}"


@functools.cache
def _tools() -> str:
    """The versions of what decides, and of what compiles."""
    decide = (kcheck.prover, kcheck.ptx, kcheck.symbolic, kcheck.generator, kcheck.model)
    compile_ = (kcheck.device, kcheck.driver, kcheck.specfile)
    return f"{_FORMAT} {code_digest(*decide, *compile_)} {sorted(_versions().items())}"


def _versions() -> Mapping[str, str]:
    found = dict(versions())
    for name in ("z3-solver", "triton", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-nvvm"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _assumed(spec: OpSpec) -> str:
    return _text([getattr(spec, name) for name in _ASSUMED])


def _text(value: object) -> str:
    """A value as text, without the places in files: a line that is added above changes nothing."""
    if isinstance(value, Span):
        return ""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_text, value))})"
    if dataclasses.is_dataclass(value):
        parts = (_text(getattr(value, one.name)) for one in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(parts)})"
    return repr(value)
