"""The launch path of all devices: stage, launch, fetch, and check what happened.

::

    prepare ─> attempt (0x5A) ─> guards, mutated ─> still poisoned? ─> attempt (0xA5) ─> unwritten
                                                 └> deterministic?  ─> attempts (other orders) ─> nondeterministic
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kcheck.alarm import TimedOut, limited
from kcheck.dataclass import dataclass
from kcheck.device import harvest
from kcheck.device.base import Backend, Staged, unheard
from kcheck.device.call import keywords, load_launcher
from kcheck.device.harvest import Bytes
from kcheck.device.kinds import DEFAULT, KINDS
from kcheck.device.kinds.base import Called
from kcheck.device.kinds.objects import Objects
from kcheck.device.launch_levels import checks_that_ran, fatal_ones, not_checked
from kcheck.device.passing import passed_arguments
from kcheck.device.places import error_place, function_place
from kcheck.device.plan import Geometry, LaunchFault, LayoutLeftOut, geometry, scalars
from kcheck.device.sampled import sampled_outcome
from kcheck.errors import InternalError
from kcheck.generator import POISON, Allocation, CaseArrays
from kcheck.generator.materialize import as_contiguous
from kcheck.model import (
    GAPS,
    INSTRUMENTED,
    NATURAL,
    NOISE,
    STORES,
    VALUES,
    Finding,
    LaunchSpec,
    OpSpec,
    Outcome,
    Schedule,
    Span,
    TextureArg,
    leaves,
)
from kcheck.model.compiled import Launched
from kcheck.model.coverage import Reached
from kcheck.model.noise import Noise
from kcheck.model.outcome import InGap
from kcheck.model.watched import StoreTarget, WatchedLaunch
from kcheck.rng import derive

if TYPE_CHECKING:
    from kcheck.model.outcome import Array, Mask

_OTHER_POISON = 0xA5
_NOT_INTERRUPTED = frozenset({"cuda", "kcheck", "llvmlite", "numba", "numba_cuda", "triton"})
"""Packages that compile and launch for a launcher. The device has its own limit for what they launch."""
_LONGER = 2  # the limit of repeats, as a multiple of the judged launch: another order may be slower
_SECOND_LAUNCH = 1.0
"""Additional seconds for a second launch. If it waits forever for a variable, every case takes as long."""
_OF_LAUNCHES = ("memcheck", "synccheck")  # every launch is checked for these, however it ends


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """One launch, and the bytes of each allocation after it. ``launched``: False for an empty grid or block."""

    after: Mapping[str, Bytes]
    findings: tuple[Finding, ...]
    launched: bool
    instrumented: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _Ready:
    """What the launches of a case share: the staged arrays, the functions that fill them, and the job."""

    arrays: CaseArrays
    staged: Mapping[str, Staged]
    fills: Mapping[str, Callable[[Bytes], None]]
    job: Callable[[], None]


_Key = tuple[str, Span | None, str | None]


def _key(finding: Finding) -> _Key:
    """The key of findings that are duplicates."""
    return (finding.rule, finding.place, finding.array)


def other_schedules(case_seed: int) -> tuple[Schedule, ...]:
    """The orders of threads in which a case is repeated."""
    return Schedule("reverse"), Schedule("shuffle", derive(case_seed, "schedule"))


def nothing() -> None:
    """The default of :attr:`LaunchingDevice.staged`."""


class LaunchingDevice:
    """A device that uses ``numba.cuda``; a :class:`kcheck.device.base.Device`.

    Attributes:
        staged: is called before each launch, when its arrays are on the device.
        launcher_limit: seconds for the launcher in each launch of the current case.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ready: _Ready | None = None
        self.name = backend.name
        self.description = backend.description
        self._launched: dict[tuple[str, str], dict[Launched, None]] = {}  # by root and path
        self._instrumented = 0.0
        self._left_out = False  # the checks of the judged launch, because their code was not in the caches
        self._reached: tuple[Reached, ...] = ()
        self.launcher_limit: float | None = None
        self.staged: Callable[[], None] = nothing

    @property
    def compiles_in_process(self) -> bool:
        """As :attr:`kcheck.device.base.Device.compiles_in_process`."""
        return self._backend.compiles_in_process

    @property
    def compiled(self) -> int:
        """As :attr:`kcheck.device.base.Device.compiled`."""
        return self._backend.compiled

    @property
    def instruments(self) -> tuple[str, ...]:
        """As :attr:`kcheck.device.base.Device.instruments`."""
        return tuple(name for name in INSTRUMENTED if name in self._backend.sanitizers)

    @property
    def lost(self) -> str:
        """As :attr:`kcheck.device.base.Device.lost`."""
        return self._backend.lost

    def take_any_stride(self) -> None:
        """Compile Numba's kernels for arrays of any stride, if the device compiles in this process."""
        self._backend.any_stride = self._backend.compiles_in_process

    def prepare(self, spec: OpSpec) -> None:
        """As :meth:`kcheck.device.base.Device.prepare`."""
        if spec.launcher is not None:
            load_launcher(spec)
        if spec.kernel is not None:
            KINDS[spec.kernel.kind].prepare(spec, self._backend)

    def launched(self, spec: OpSpec) -> tuple[Launched, ...]:
        """As :meth:`kcheck.device.base.Device.launched`."""
        return tuple(self._launched.get((spec.root, spec.path), ()))

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str] = ()
    ) -> Outcome:
        """As :meth:`kcheck.device.base.Device.run`. Only the first launch is instrumented."""
        if any(allocation.reserved for allocation in arrays.allocations.values()):
            try:
                return sampled_outcome(
                    self._backend,
                    spec,
                    arrays,
                    lambda shape: self._made_ready(spec, arrays, POISON, shape)[1],
                    timeout,
                )
            finally:
                self._unstage()
        try:
            return self._judged_run(spec, arrays, timeout, instrument)
        except LayoutLeftOut as left:
            self._unstage()
            name = arrays.allocation(left.array).name
            if arrays.allocations[name].far is None:
                raise InternalError(f"{arrays.case.id}: {left}") from left
            done = self.run(spec, as_contiguous(arrays, name), timeout=timeout, instrument=instrument)
            return replace(done, notes=(*done.notes, left.why))

    def _judged_run(
        self, spec: OpSpec, arrays: CaseArrays, timeout: float | None, instrument: Collection[str]
    ) -> Outcome:
        notes = not_checked(spec, self._backend)
        if spec.kernel is not None and (note := KINDS[spec.kernel.kind].note):
            notes += (note,)
        self._instrumented, self._reached, self.launcher_limit = 0.0, (), timeout
        kernel = spec.kernel.name if spec.kernel is not None else spec.launcher.name if spec.launcher else None
        try:
            begun = time.monotonic()
            first = self._first(spec, arrays, timeout, instrument)
        except LaunchFault as fault:
            ran = () if self._left_out else instrument
            checked = checks_that_ran(spec, self._backend, {*_OF_LAUNCHES, *ran})
            found = self._with_overflow(spec, arrays, fault.findings, timeout, ran)
            fatal = harvest.with_layouts(spec, arrays.case, fatal_ones(spec, found))
            self._unstage()
            spent, reached = self._instrumented, self._reached
            return Outcome(arrays.case, self.name, {}, {}, fatal, notes, checked, spent, reached=reached)
        seen = {*_OF_LAUNCHES, "unwritten", "mutated", *first.instrumented}
        findings = [*first.findings, *harvest.input_findings(spec, arrays.allocations, first.after, kernel)]
        outputs = {name: _output(arrays.allocation(name), first.after) for name in spec.outputs}
        unwritten: dict[str, Mask] = {}
        changed = self._backend.modules.changed() if first.launched and self._backend.modules is not None else ()
        took = time.monotonic() - begun
        longer = None if timeout is None else _limit_of_repeats(timeout, took)
        try:
            unwritten = self._unwritten(spec, arrays, first, longer)
            findings += [
                harvest.unwritten_finding(name, mask, kernel, first.launched) for name, mask in unwritten.items()
            ]
            if first.launched and spec.sanitize["nondeterministic"] != "off":
                deterministic, said = self._deterministic(spec)
                notes += said
                if deterministic:
                    seen.add("nondeterministic")
                    before = {_key(finding) for finding in first.findings}
                    findings += self._nondeterministic(spec, arrays, outputs, longer, kernel, before)
                    if changed and self._backend.orders_threads:  # a GPU may be lost if the second launch fails
                        brief = None if longer is None else min(longer, _LONGER * took + _SECOND_LAUNCH)
                        findings += self._second_launch(spec, arrays, outputs, brief, kernel, changed)
        except LaunchFault as fault:  # the first launch finished, but a repeat did not
            findings += fatal_ones(spec, fault.findings)
        finally:
            self._unstage()
        checked = checks_that_ran(spec, self._backend, seen)
        return Outcome(
            arrays.case,
            self.name,
            outputs,
            unwritten,
            tuple(findings),
            notes,
            checked,
            self._instrumented,
            self._backend.facts(),
            reached=self._reached,
        )

    def watch(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        targets: Sequence[StoreTarget],
        *,
        wanted: Collection[str],
        timeout: float | None,
    ) -> WatchedLaunch | None:
        """As :meth:`kcheck.device.base.Device.watch`."""
        if not self._backend.watches:
            return None
        self._backend.instrument({*wanted, *([STORES] if targets else ())})
        taken = self._backend.near_stores(targets)
        try:
            done = self.attempt(spec, arrays, POISON, timeout, is_repeat=True)
        except LaunchFault:  # the judged launch did not fail; it is too slow in this code
            return None
        finally:
            stores = taken()
            self._backend.instrument(())
            self._unstage()
        if not done.launched:
            return None
        values = tuple(finding for finding in done.findings if finding.rule == VALUES)
        gaps = tuple(finding for finding in done.findings if isinstance(finding.seen, InGap))
        return WatchedLaunch(values, gaps if GAPS in wanted else (), stores)

    def with_noise(
        self, spec: OpSpec, arrays: CaseArrays, noise: Noise, *, timeout: float | None
    ) -> tuple[Mapping[str, Array], tuple[Finding, ...]] | None:
        """As :meth:`kcheck.device.base.Device.with_noise`."""
        if not self._backend.watches:
            return None
        self._backend.instrument({NOISE})
        self._backend.set_noise(noise)
        try:
            done = self.attempt(spec, arrays, POISON, timeout, is_repeat=True)
        except LaunchFault:  # the judged launch did not fail; it is too slow in this code
            return None
        finally:
            self._backend.instrument(())
            self._backend.set_noise(Noise())
            self._unstage()
        outputs = {name: _output(arrays.allocation(name), done.after) for name in spec.outputs}
        return outputs, tuple(finding for finding in done.findings if finding.rule == NOISE)

    def _first(
        self, spec: OpSpec, arrays: CaseArrays, limit: float | None, instrument: Collection[str]
    ) -> Attempt:
        """The launch that is judged, instrumented. If it takes half of the limit, a plain launch gets the rest.

        Raises:
            LaunchFault: the launch did not finish.
        """
        self._backend.instrument(instrument)
        if instrument and limit is not None:
            limit /= 2
        try:
            done = self.attempt(spec, arrays, POISON, limit)
            return done if self._backend.left_out else replace(done, instrumented=tuple(instrument))
        except LaunchFault as fault:
            if not instrument or self.lost or all(finding.rule != "timeout" for finding in fault.findings):
                raise
        finally:
            self._instrumented, self._reached = self._backend.instrumented(), self._backend.reached()
            self._left_out = self._backend.left_out
            self._backend.instrument(())
        return self.attempt(spec, arrays, POISON, limit)

    def _with_overflow(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        found: tuple[Finding, ...],
        limit: float | None,
        instrument: Collection[str],
    ) -> tuple[Finding, ...]:
        """The findings of a launch that did not finish. If it accessed memory outside an array and was not checked
        for overflow, it is repeated with that check: an index that wrapped is the cause of the access."""
        if "overflow" in instrument or "overflow" not in self.instruments or spec.sanitize["overflow"] == "off":
            return found
        if self.lost or not any(finding.rule == "memcheck" for finding in found):
            return found
        self._backend.instrument({"overflow"})
        try:
            self.attempt(spec, arrays, POISON, limit, is_repeat=True)
        except LaunchFault as fault:
            return fault.findings if any(one.rule == "overflow" for one in fault.findings) else found
        finally:
            self._backend.instrument(())
        return found

    def _refuse_dtypes(self, spec: OpSpec, arrays: CaseArrays) -> None:
        for name, allocation in arrays.allocations.items():
            kind = KINDS[spec.kernel.kind if spec.kernel is not None else DEFAULT]
            reason = kind.unsupported(allocation.dtype.name, self._backend)
            if reason:
                raise LaunchFault(Finding("unsupported", reason, array=name, place=spec.span))

    def _unwritten(self, spec: OpSpec, arrays: CaseArrays, first: Attempt, limit: float | None) -> dict[str, Mask]:
        """Masks of unwritten elements. They are exact: an unwritten element still has the poison byte after two
        launches with different poison bytes."""
        masks: dict[str, Mask] = {}
        for name, allocation in arrays.allocations.items():
            if name in spec.outputs:
                mask = harvest.untouched(allocation, first.after[name], POISON)
                if mask.any():
                    masks[name] = mask
        if not masks or not first.launched:
            return masks
        second = self.attempt(spec, arrays, _OTHER_POISON, limit, is_repeat=True)
        both = {
            name: mask & harvest.untouched(arrays.allocations[name], second.after[name], _OTHER_POISON)
            for name, mask in masks.items()
        }
        return {name: mask for name, mask in both.items() if mask.any()}

    def _deterministic(self, spec: OpSpec) -> tuple[bool, tuple[str, ...]]:
        """(whether another schedule must give the same bits, notes)."""
        if spec.deterministic is not None:  # the default is true, unless floats are added atomically
            return spec.deterministic, ()
        atomics = self._backend.facts().float_atomics
        if atomics is None:
            return False, (f"not checked on the {self.name} unless the spec sets it: deterministic",)
        return not atomics, ()

    def _nondeterministic(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        outputs: Mapping[str, Array],
        limit: float | None,
        kernel: str | None,
        before: set[_Key],
    ) -> list[Finding]:
        """Launch with other orders of threads. Returns findings for outputs whose bits differ, and the findings of
        these launches that are not in ``before``."""
        found: list[Finding] = []
        left = dict(outputs)
        for schedule in other_schedules(arrays.case.seed):
            try:
                again = self.attempt(spec, arrays, POISON, limit, schedule, is_repeat=True)
            except LaunchFault as fault:
                return found + [self._only_then(finding, schedule) for finding in fatal_ones(spec, fault.findings)]
            for finding in again.findings:
                if _key(finding) not in before:
                    before.add(_key(finding))
                    found.append(self._only_then(finding, schedule))
            for name, output in tuple(left.items()):
                memory = arrays.allocation(name)
                other = _output(memory, again.after)
                then = str(schedule) if self._backend.orders_threads else ""
                differs = harvest.nondeterministic_finding(name, memory.dtype, output, other, kernel, then)
                if differs is not None:
                    found.append(differs)
                    del left[name]
        return found

    def _second_launch(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        outputs: Mapping[str, Array],
        limit: float | None,
        kernel: str | None,
        changed: tuple[str, ...],
    ) -> list[Finding]:
        """Launch twice without resetting the variables ``changed`` in between, as a program does. Returns warnings
        for outputs whose bits differ, because the program may reset the variables itself."""
        modules = self._backend.modules
        assert modules is not None
        self.attempt(spec, arrays, POISON, limit, is_repeat=True)
        modules.keeps = True
        try:
            again = self.attempt(spec, arrays, POISON, limit, is_repeat=True)
        except LaunchFault as fault:
            return [harvest.second_launch_fault(finding, changed) for finding in fault.findings]
        finally:
            modules.keeps = False
        memories = {name: arrays.allocation(name) for name in outputs}
        found = (
            harvest.second_launch_finding(memory, outputs[name], _output(memory, again.after), kernel, changed)
            for name, memory in memories.items()
        )
        return [finding for finding in found if finding is not None]

    def _only_then(self, finding: Finding, schedule: Schedule) -> Finding:
        """The finding, with a note that the first launch did not have it."""
        order = f"with the threads in {schedule}" if self._backend.orders_threads else "in a repeated launch"
        return finding.adding(f"only {order}")

    def attempt(
        self,
        spec: OpSpec,
        arrays: CaseArrays,
        poison: int,
        limit: float | None,
        schedule: Schedule = NATURAL,
        *,
        is_repeat: bool = False,
    ) -> Attempt:
        """Launch once, on fresh copies of everything.

        Args:
            limit: seconds; None for no limit.
            is_repeat: this repeats a judged launch: fetch only the outputs, and discard what it prints.

        Raises:
            LaunchFault: the launch did not finish.
        """
        self._refuse_dtypes(spec, arrays)
        shape = shape_of(spec, arrays)
        if shape is not None and shape.empty:
            return Attempt({name: a.buffer.copy() for name, a in arrays.allocations.items()}, (), launched=False)
        staged, job = self._made_ready(spec, arrays, poison, shape)
        self.staged()
        # Compilations up to here do not count toward the limit.
        deadline = None if limit is None else time.monotonic() + limit
        with unheard() if is_repeat else nullcontext():
            findings = self._backend.launch(job, spec, deadline, schedule)
        if spec.launcher is not None:  # only its code determines which kernels it launches
            self._launched.setdefault((spec.root, spec.path), {}).update(dict.fromkeys(self._backend.launched()))
        wanted = {arrays.allocation(name).name for name in spec.outputs} if is_repeat else staged.keys()
        return Attempt({name: staged[name].fetch() for name in wanted}, tuple(findings), launched=True)

    def _made_ready(
        self, spec: OpSpec, arrays: CaseArrays, poison: int, shape: Geometry | None
    ) -> tuple[Mapping[str, Staged], Callable[[], None]]:
        """The arrays on the device, with their initial bytes, and the job that launches with them.

        A kernel gets the same arrays in every launch of a case. A launcher may keep references to arrays, and
        textures are copies of arrays, so these get new arrays.
        """
        ready = self._ready
        if ready is not None and ready.arrays is arrays:
            for name, allocation in arrays.allocations.items():
                ready.fills[name](initial_bytes(spec, name, allocation, poison))
            return ready.staged, ready.job
        self._unstage()
        staged = {
            name: self._backend.stage(
                replace(allocation, name=spec.passed_name(name)), initial_bytes(spec, name, allocation, poison)
            )
            for name, allocation in arrays.allocations.items()
        }
        if spec.launch is None or shape is None:
            return staged, self._launcher_job(spec, arrays, staged)
        job = self._kernel_job(spec, spec.launch, shape, arrays, staged)
        fills = {name: one.fill for name, one in staged.items() if one.fill is not None}
        has_textures = any(isinstance(arg, TextureArg) for arg in leaves(spec.launch.args))
        if len(fills) == len(staged) and not has_textures and not spec.variables:
            self._ready = _Ready(arrays, staged, fills, job)
        return staged, job

    def _unstage(self) -> None:
        self._ready = None
        self._backend.unstage()

    def _kernel_job(
        self, spec: OpSpec, launch: LaunchSpec, shape: Geometry, arrays: CaseArrays, staged: Mapping[str, Staged]
    ) -> Callable[[], None]:
        assert spec.kernel is not None
        modules = self._backend.modules
        objects = None if modules is None else Objects(modules)
        try:
            given = passed_arguments(spec, launch.args, arrays, staged, objects)
            values = passed_arguments(spec, spec.variables.values(), arrays, staged, objects)
            variables = tuple(zip(spec.variables, values, strict=True))
            called = Called(spec, arrays.case, dict(arrays.params), shape, given, variables)
            job = KINDS[spec.kernel.kind].job(called, self._backend)
        except BaseException:
            if objects is not None:
                objects.close()
            raise
        return job if objects is None else objects.around(job)

    def _launcher_job(self, spec: OpSpec, arrays: CaseArrays, staged: Mapping[str, Staged]) -> Callable[[], None]:
        assert spec.launcher is not None
        launcher = load_launcher(spec)
        values: dict[str, Any] = {**arrays.case.dims, **arrays.params}
        for name in (*spec.inputs, *spec.outputs):
            values[name] = staged[arrays.allocation(name).name].array
        given = keywords(launcher, values)

        kind = KINDS[spec.kernel.kind if spec.kernel is not None else DEFAULT]

        def job() -> None:
            with kind.launching(spec, arrays.case, self._backend):
                try:
                    with limited("the launcher", self.launcher_limit, self._backend.time_left, _NOT_INTERRUPTED):
                        launcher(**given)
                except TimedOut as ended:
                    place = error_place(ended, spec.root) or function_place(launcher)
                    finding = Finding("timeout", ended.sentence, fix=ended.fix, place=place)
                    raise LaunchFault(finding) from None

        return job


def _limit_of_repeats(limit: float, took: float) -> float:
    """The limit in seconds for each repeat of a launch that took ``took`` seconds, within ``limit``."""
    return min(_LONGER * limit, max(limit, _LONGER * took))


def shape_of(spec: OpSpec, arrays: CaseArrays) -> Geometry | None:
    """The geometry of a case's launch; None if a launcher decides."""
    return None if spec.launch is None else geometry(spec.launch, scalars(arrays.case, arrays.params))


def initial_bytes(spec: OpSpec, name: str, allocation: Allocation, poison: int) -> Bytes:
    """An allocation's bytes, which the caller must not change; an output's elements are filled with the poison."""
    if name not in spec.outputs or poison == POISON:
        return allocation.buffer
    buffer: Bytes = allocation.buffer.copy()
    harvest.poison(allocation, buffer, poison)
    return buffer


def _output(allocation: Allocation, after: Mapping[str, Bytes]) -> Array:
    return harvest.values(allocation, after[allocation.name])
