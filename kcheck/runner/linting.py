"""``kcheck lint``: compiles the kernels of specs as for a GPU, measures them, and compares them with
``artifact:``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device import Device, unheard
from kcheck.device.artifact import Compilation, compile_here, no_compiler
from kcheck.device.assembler import assemble, link
from kcheck.device.disassembler import ToolFailed, disassemble, find_disassembler, no_disassembler
from kcheck.device.kinds import KINDS, WantedArtifact, Work
from kcheck.device.plan import Geometry, LaunchFault, geometry, unrounded
from kcheck.errors import KernelError, SpecError
from kcheck.generator import materialize, plan
from kcheck.linter.check import check, unchecked
from kcheck.linter.measure import measure
from kcheck.model import Artifact, Case, Finding, Index3, LaunchSpec, OpSpec, Span
from kcheck.model.compiled import CompiledKernel, Resources
from kcheck.model.limits import TIMEOUT
from kcheck.model.metrics import Metrics
from kcheck.model.note import Note
from kcheck.ptx.syntax.parser import parse
from kcheck.runner.artifact import LaunchedKernel, kernels_launched, not_found

_CASES_OF_A_LAUNCHER = 4
"""How many cases to run to find which kernels a launcher launches, for each choice of dtypes."""


@dataclass(frozen=True, slots=True)
class Linted:
    """The result for a spec or a PTX file.

    Attributes:
        op, path: the spec's; for a PTX file, only its path.
        metrics: one for each kernel, target and choice of argument types.
        findings: violations of ``artifact:``.
        notes: what was not examined.
        unchecked: entries of ``artifact:`` that could not be checked, with the reason.
        no_sass: why there is no machine code, if it was requested.
    """

    op: str
    path: str
    metrics: tuple[Metrics, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    no_sass: tuple[str, ...] = ()


def lint_spec(
    spec: OpSpec,
    device: Device | None,
    targets: Sequence[str],
    *,
    sass: bool = False,
    timeout: float | None = TIMEOUT,
) -> Linted:
    """Compile every specialization of a spec's kernels and measure it.

    Args:
        device: the device to watch a launcher's kernels on; used only for specs with ``launcher:``.
        targets: replace those of the spec or its project, unless empty.
        sass: examine the machine code, too.
        timeout: seconds for a case of a launcher; None for no limit.

    Raises:
        KernelError: a kernel's file cannot be loaded, or a launcher did not finish, so that not all kernels are
            known.
    """
    if spec.function is not None:
        return Linted(spec.op, spec.path, (), (), (f"{spec.function} is an array function: nothing is compiled",))
    artifact = spec.artifact or Artifact(spec.span)
    chosen = tuple(targets) or spec.targets
    if why := no_compiler():
        missed = (f"artifact was not checked: {why}",) if spec.artifact else ()
        return Linted(spec.op, spec.path, (), (), (why,), missed)
    notes: list[str] = []
    kernels: list[CompiledKernel] = []
    metrics: list[Metrics] = []

    def add(made: Sequence[CompiledKernel], at: _Block | None) -> None:
        kernels.extend(made)
        metrics.extend(measure(kernel, *at) if at else measure(kernel) for kernel in made)

    if spec.kernel is not None and spec.launch is not None:
        cases = plan(spec, count=spec.count, master=spec.seed)
        work: Work = KINDS[spec.kernel.kind].artifact(spec, cases, WantedArtifact(chosen, False, sass))
        add(work.result(), _usual_block(spec.launch, cases, notes))
    else:
        assert device is not None
        for seen in _launched(spec, device, notes, timeout):
            if seen.codes:
                add(seen.assembled(chosen, notes, sass=sass), seen.largest)
            elif seen.function.given is None:
                made = Compilation(spec.root, seen.function, seen.signatures, chosen, sass=sass)
                add(made.result(), seen.largest)
            elif device.compiles_in_process:
                add(compile_here(spec.root, seen.function, seen.signatures, chosen, sass=sass), seen.largest)
            else:
                notes.append(not_found(seen.function))
    return Linted(
        spec.op,
        spec.path,
        tuple(metrics),
        check(artifact, kernels),
        tuple(dict.fromkeys(notes)),
        unchecked(artifact, kernels) if sass else (),
        tuple(dict.fromkeys(kernel.no_sass for kernel in kernels if kernel.no_sass)),
    )


_Block: TypeAlias = tuple[Index3, int]
"""Threads per block, and bytes of dynamic shared memory."""


def _usual_block(launch: LaunchSpec, cases: Sequence[Case], notes: list[str]) -> _Block | None:
    """The most common block of a spec's cases, with its dynamic shared memory."""
    counted: Counter[Geometry] = Counter()
    for case in cases:
        try:
            made = geometry(launch, unrounded(case))
        except LaunchFault:
            continue
        if not made.empty:
            counted[replace(made, grid=(1, 1, 1))] += 1
    if not counted:
        notes.append(Note("no occupancy: no case of the spec is launched", "occupancy"))
        return None
    if len(counted) > 1:
        text = f"occupancy is that of the most common block; the cases use {len(counted)} different blocks"
        notes.append(Note(text, "occupancy"))
    usual = counted.most_common(1)[0][0]
    return usual.block, usual.shared


def _launched(spec: OpSpec, device: Device, notes: list[str], timeout: float | None) -> tuple[LaunchedKernel, ...]:
    """The kernels that a launcher launches, found by running a few cases of each choice of dtypes.

    Raises:
        KernelError: a case did not end within the time limit. Without an error, a kernel that only this case
            launches would be checked or not, depending on how busy the machine is.
    """
    device.prepare(spec)
    seen: Counter[tuple[str, ...]] = Counter()
    for case in _largest_first(plan(spec, count=spec.count, master=spec.seed)):
        choice = (*case.dtypes.values(),)
        if seen[choice] >= _CASES_OF_A_LAUNCHER:
            continue
        seen[choice] += 1
        try:
            with unheard():
                outcome = device.run(spec, materialize(spec, case), timeout=timeout)
        except SpecError:
            continue
        if any(finding.rule == "timeout" for finding in outcome.findings):
            assert timeout is not None
            what = f"{case.id} did not end within {timeout:g} s, so the kernels that it launches are unknown"
            place = spec.launcher.span if spec.launcher is not None else spec.span
            raise KernelError(place, what, "look for a loop that does not end, or raise KCHECK_TIMEOUT")
    found = kernels_launched(spec, device.launched(spec), notes)
    for kernel in found:
        block, shared = kernel.largest
        size = f"{math.prod(block):,} threads"
        size += f" and {shared:,} bytes of dynamic shared memory" if shared else ""
        kinds = f", of {len(kernel.blocks)} kinds" if len(kernel.blocks) > 1 else ""
        text = f"occupancy of {kernel.function.name} is that of the largest block seen{kinds}: {size}"
        notes.append(Note(text, "occupancy"))
    return found


def _largest_first(cases: Sequence[Case]) -> list[Case]:
    """Sort cases so that those with elements come first: without elements, a launcher may not launch anything."""
    return sorted(cases, key=lambda case: -min(case.dims.values(), default=1))


def lint_ptx(
    text: str, file: str, entry: str, targets: Sequence[str], block: tuple[int, int, int] | None
) -> Linted:
    """Measure the kernels of a PTX file.

    Args:
        entry: the mangled name of one kernel, or a unique part of it; empty for every kernel.
        targets: empty for the one that the file names.
        block: threads per block for the occupancy.

    Raises:
        PtxError: the text is not PTX.
        KernelError: there is no such entry, or the assembler rejects the file.
    """
    module = parse(text, file)
    names = [function.name for function in module.entries if entry in function.name]
    if entry in names:
        names = [entry]
    if not names or (entry and len(names) > 1):
        if not entry:
            raise KernelError(Span(file), "it has no .entry")
        known = ", ".join(function.name for function in module.entries) or "none"
        what = f"{len(names)} entries match {entry!r}" if names else f"there is no entry {entry!r}"
        raise KernelError(Span(file), what, f"its entries: {known}")
    made, missed = [], list[str]()
    why = no_compiler()
    for target in targets or tuple(part for part in module.target if part.startswith("sm_"))[:1]:
        try:
            resources, sass, no_sass = ({}, "", "") if why else _assembled(text, target)
        except ToolFailed as error:
            raise KernelError(Span(file), str(error)) from error
        missed += [no_sass] * bool(no_sass)
        for name in names:
            place = Span(file, module.functions[name].line, 1)
            kernel = CompiledKernel(name, place, (), target, name, text, resources.get(name), sass)
            made.append(measure(kernel, block))
    notes = (f"no registers and spills: {why}",) if why else ()
    return Linted("", file, tuple(made), (), notes, no_sass=tuple(dict.fromkeys(missed)))


def _assembled(ptx: str, target: str) -> tuple[dict[str, Resources], str, str]:
    """(resources by entry, machine code, why there is no machine code) of a module.

    Raises:
        ToolFailed: the assembler rejects it.
    """
    resources = assemble(ptx, target)
    program = find_disassembler()
    try:
        return resources, disassemble(link(ptx, target)[0], program) if program else "", no_disassembler()
    except ToolFailed as error:
        return resources, "", str(error)
