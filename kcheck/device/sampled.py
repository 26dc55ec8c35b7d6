"""Sampled launches: some blocks of a launch whose arrays do not fit in memory, judged by their addresses."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcheck.device import harvest
from kcheck.device.base import Backend
from kcheck.device.plan import Geometry, LaunchFault, geometry, scalars
from kcheck.generator import CaseArrays
from kcheck.generator.far import NoAddressSpace
from kcheck.generator.huge import sampled_blocks
from kcheck.model import Finding, OpSpec, Outcome, Schedule
from kcheck.model.note import Note
from kcheck.rng import Xorshift128Plus, derive

_CHECKED = ("memcheck", "racecheck", "synccheck", "overflow")
_MOST_RACED = 256 << 30
"""The largest arrays, in bytes, in which racecheck watches a sampled launch: its records take 64 times as much
address space."""


def sampled_outcome(
    backend: Backend,
    spec: OpSpec,
    arrays: CaseArrays,
    ready: Callable[[Geometry], Callable[[], None]],
    timeout: float | None,
) -> Outcome:
    """Run a sample of the blocks of a huge case.

    Args:
        ready: stages the arrays for a launch of this geometry; returns the job.
    """
    case = arrays.case
    sizes = " ".join(f"{name}={size}" for name, size in case.dims.items())
    if not backend.samples:
        return Outcome(
            case, backend.name, {}, {}, notes=(Note(f"huge cases were not run on the {backend.name}", "huge"),)
        )
    assert spec.launch is not None
    checked = {name for name in _CHECKED if spec.sanitize[name] != "off"} - _unchecked(spec, arrays)
    findings: tuple[Finding, ...] = ()
    told = f"huge {sizes}: not launched"
    try:
        shape = geometry(spec.launch, scalars(case, arrays.params))
        if shape.empty:
            return Outcome(case, backend.name, {}, {}, notes=(Note(told, "huge"),))
        stream = Xorshift128Plus(derive(case.seed, "blocks"))
        shapes = {name: (one.shape, one.dtype.itemsize) for name, one in arrays.allocations.items()}
        blocks = sampled_blocks(shapes, shape.grid, stream.below)
        x, y, z = shape.grid
        told = f"huge {sizes}: {len(blocks)} of {x * y * z:,} blocks, addresses only"
        backend.instrument(checked & {"racecheck", "overflow"})
        job = ready(shape)
        deadline = None if timeout is None else time.monotonic() + timeout
        findings = tuple(backend.launch(job, spec, deadline, Schedule("sample", blocks=tuple(blocks))))
        if backend.unfinished:
            told += f", {backend.unfinished} not finished"
    except LaunchFault as fault:
        findings = fault.findings
    except NoAddressSpace as error:
        told = f"huge {sizes}: not launched: {error}"
    finally:
        backend.instrument(())
    found = harvest.with_layouts(spec, case, filter(_is_of_addresses, findings))
    order = tuple(name for name in spec.sanitize if name in checked)
    return Outcome(case, backend.name, {}, {}, found, (Note(told, "huge"),), order, backend.instrumented())


def _is_of_addresses(finding: Finding) -> bool:
    """Whether a finding does not depend on what arrays contain, as an exception that a thread raises does. How
    long a launch takes does not matter."""
    return finding.rule != "timeout" and (finding.rule != "launch" or finding.thread is None)


def _unchecked(spec: OpSpec, arrays: CaseArrays) -> set[str]:
    """The sanitizers that could report what is not wrong: arrays of indices that were not drawn are all zeros."""
    reserved = [one for one in arrays.allocations.values() if one.reserved]
    is_index = any(one.dtype.is_integer and one.name in spec.inputs for one in reserved)
    is_wide = sum(one.reserved for one in reserved) > _MOST_RACED
    return {"racecheck"} if is_index or is_wide else set()
