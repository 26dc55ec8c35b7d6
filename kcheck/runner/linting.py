"""``kcheck lint``: compile what specs name as a GPU would get it, measure it, hold it against ``artifact:``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kcheck.cases import materialize, plan
from kcheck.device import Device
from kcheck.device.artifact import Compilation, assemble, no_compiler
from kcheck.device.plan import Geometry, LaunchFault, geometry
from kcheck.device.specialise import signatures
from kcheck.errors import KernelError, SpecError
from kcheck.lint import check, measure
from kcheck.model import Artifact, Case, Finding, Function, OpSpec, Span
from kcheck.model.compiled import CompiledKernel, Signature
from kcheck.model.metrics import Metrics
from kcheck.ptx.parser import parse
from kcheck.runner.artifact import kernels_launched

_CASES_OF_A_LAUNCHER = 4
"""How many cases tell which kernels a launcher launches, for each choice of dtypes."""


@dataclass(frozen=True, slots=True)
class Linted:
    """What there is to say about a spec, or a PTX file.

    Attributes:
        op, path: of the spec; the file's path alone for PTX.
        metrics: one for each kernel, target and choice of argument types.
        findings: offences against ``artifact:``.
        notes: what was not looked at.
    """

    op: str
    path: str
    metrics: tuple[Metrics, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def lint_spec(spec: OpSpec, device: Device | None, targets: Sequence[str]) -> Linted:
    """Compile every specialisation of a spec's kernels and measure it.

    Args:
        device: on which a launcher's kernels are seen; only asked of specs with ``launcher:``.
        targets: in place of those of the spec's ``artifact:``; none: those, or sm_80.

    Raises:
        KernelError: a kernel's file cannot be loaded.
    """
    artifact = spec.artifact or Artifact(spec.span)
    chosen = tuple(targets) or artifact.targets
    if why := no_compiler():
        return Linted(spec.op, spec.path, (), (), (why,))
    notes: list[str] = []
    made: list[tuple[CompiledKernel, Geometry | None]] = []
    if spec.kernel is not None and spec.launch is not None:
        at = _usual_geometry(spec, notes)
        made = [(kernel, at) for kernel in Compilation(spec.root, spec.kernel, signatures(spec), chosen).result()]
    else:
        assert device is not None
        for function, types in _launched(spec, device, notes):
            made += [(kernel, None) for kernel in Compilation(spec.root, function, types, chosen).result()]
    metrics = tuple(measure(kernel, at.block, at.shared) if at else measure(kernel) for kernel, at in made)
    return Linted(
        spec.op, spec.path, metrics, check(artifact, [kernel for kernel, _ in made]), tuple(dict.fromkeys(notes))
    )


def _usual_geometry(spec: OpSpec, notes: list[str]) -> Geometry | None:
    """The block, with its dynamic shared memory, that most of a spec's cases are launched with."""
    assert spec.launch is not None
    counted: Counter[Geometry] = Counter()
    for case in plan(spec, count=spec.count, master=spec.seed):
        try:
            made = geometry(spec.launch, {**case.dims, **case.params})
        except LaunchFault:
            continue
        if not made.empty:
            counted[replace(made, grid=(1, 1, 1))] += 1
    if not counted:
        notes.append("no occupancy: no case of the spec is launched")
        return None
    if len(counted) > 1:
        notes.append(f"occupancy is that of the block of most cases; there are {len(counted)} kinds of block")
    return counted.most_common(1)[0][0]


def _launched(spec: OpSpec, device: Device, notes: list[str]) -> Iterator[tuple[Function, tuple[Signature, ...]]]:
    """What a launcher launches, seen by running a few cases of each choice of dtypes."""
    device.prepare(spec)
    seen: Counter[tuple[str, ...]] = Counter()
    for case in _largest_first(plan(spec, count=spec.count, master=spec.seed)):
        choice = (*case.dtypes.values(),)
        if seen[choice] >= _CASES_OF_A_LAUNCHER:
            continue
        seen[choice] += 1
        try:
            device.run(spec, materialize(spec, case), timeout=60.0)
        except SpecError:
            continue
    yield from kernels_launched(spec, device.launched(spec), notes)
    notes.append("no occupancy: only the launcher knows its blocks")


def _largest_first(cases: Sequence[Case]) -> list[Case]:
    """Cases with elements come before those without, of which a launcher may launch nothing."""
    return sorted(cases, key=lambda case: -min(case.dims.values(), default=1))


def lint_ptx(
    text: str, file: str, entry: str, targets: Sequence[str], block: tuple[int, int, int] | None
) -> Linted:
    """Measure the kernels of a PTX file.

    Args:
        entry: the mangled name of one kernel, or a part of it that no other has; empty: every kernel.
        targets: none: the one that the file names.
        block: threads per block to tell the occupancy of.

    Raises:
        PtxError: it is not PTX.
        KernelError: there is no such entry, or the assembler refuses the file.
    """
    module = parse(text, file)
    names = [function.name for function in module.entries if entry in function.name]
    if entry in names:
        names = [entry]
    if not names or (entry and len(names) > 1):
        known = ", ".join(function.name for function in module.entries) or "none"
        what = f"{len(names)} entries match {entry!r}" if names else f"there is no entry {entry!r}"
        raise KernelError(f"{file}: {what}; its entries: {known}" if entry else f"{file}: it has no .entry")
    made = []
    why = no_compiler()
    for target in targets or tuple(part for part in module.target if part.startswith("sm_"))[:1]:
        resources = {} if why else assemble(text, target)
        for name in names:
            place = Span(file, module.functions[name].line, 1)
            kernel = CompiledKernel(name, place, (), target, name, text, resources.get(name))
            made.append(measure(kernel, block))
    return Linted("", file, tuple(made), (), (f"no registers and spills: {why}",) if why else ())
