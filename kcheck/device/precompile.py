"""Compiles a kernel's specializations in other processes, in parallel with the cases, into the disk caches. On the
cpu device, a case waits up to a second or two until its specialization is compiled. Most of that time is spent in
Python, so another thread would not help, but another process does: a fork of this one if that is safe, otherwise a
new one. These processes start with the specialization that is needed last, and store results where this process
looks before it compiles. If two processes reach the same specialization, both compile it, with the same result.
Nothing waits for the other processes, and nothing depends on them.

For kernels whose compilers make code for single values (Triton, templates and macros in CUDA C++), the forks run
whole cases, one for each code: that compiles what the case itself would.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

from kcheck.children import Forked, may_fork
from kcheck.device.artifact import NoNumbaType, compile_kernel, numba_type
from kcheck.device.child import Child
from kcheck.device.specialize import in_order, of_any_stride
from kcheck.driver.compile_errors import is_compiler_error
from kcheck.driver.install import threads
from kcheck.driver.kernel_cache import KeptKernels, kept_kernels
from kcheck.errors import KcheckError, KernelError, PtxError
from kcheck.model import Case, OpSpec
from kcheck.model.compiled import Signature
from kcheck.specfile.load import load_file, load_function, loaded_files

LEAST = 3
"""The minimum number of specializations for which a new process is worthwhile: its start takes as long as two."""

LEAST_FORKED = 2
"""The same for a forked process, which starts immediately."""

MOST = 7
"""The maximum number of forked processes: each compiles at least one specialization."""

MOST_CASES = 2_000
"""How many of the first cases to examine: a plan begins with those that cover most dtypes and layouts."""


class Precompile:
    """Compiles a spec's kernel in advance, until :meth:`cancel`.

    Args:
        children: the processes that compile.
    """

    def __init__(self, children: Sequence[Child | Forked]) -> None:
        self._children = children

    @property
    def running(self) -> bool:
        """Whether it is still compiling."""
        return any(child.running for child in self._children)

    def cancel(self) -> None:
        """End the processes, whether they are finished or not."""
        for child in self._children:
            child.kill()


def begin(
    spec: OpSpec, cases: Iterable[Case], sanitizers: Collection[str], *, any_stride: bool = False
) -> Precompile | None:
    """Compile the kernel of a spec with ``launch:`` before its cases need it, starting with the last
    specialization; also for the targets of its ``artifact:``, or else for arrays of any stride.

    Without an ``artifact:``, this process compiles the specialization of the first case itself.

    None if that would not help, because there is a single processor or little is missing in the caches. The cpu
    device must be running in this process, and the kernel must be loaded.
    """
    spare = threads(os.environ) - 1
    if spare < 1:
        return None
    first = islice(cases, MOST_CASES)
    known = of_any_stride(spec, first) if any_stride else in_order(spec, first)
    absent = _missing(spec, known)[::-1]
    targets = () if any_stride or spec.artifact is None else spec.artifact.targets
    if may_fork():
        if len(absent) < LEAST_FORKED:
            return None
        _warm()
        count = min(spare, len(absent) - 1, MOST)
        if not targets and absent[-1] == known[0]:
            absent.pop()
        return Precompile([_forked(spec, absent[first::count], sanitizers, targets) for first in range(count)])
    return Precompile([_child(spec, absent, sanitizers, targets)]) if len(absent) >= LEAST else None


def run_ahead(codes: Sequence[Case], run: Callable[[Case], object]) -> Precompile | None:
    """Run cases in forks of this process, so that their code is in the caches. The cpu device must be running in
    this process. None if that would not help.

    Args:
        codes: a case for each code that is needed, in the order in which this process will need them.
        run: runs a case. If it raises, the case itself will report why.
    """
    count = min(threads(os.environ) - 1, len(codes) - 1, MOST)
    if count < 1 or not may_fork():
        return None
    from kcheck.device.cpu import surviving_fork

    def work(cases: Sequence[Case]) -> None:
        os.nice(5)  # the cases of this process come first
        import_module("numba.cuda.cudadrv.driver").driver.pid = os.getpid()  # see _forked
        for case in cases:
            with contextlib.suppress(KcheckError):
                run(case)

    with surviving_fork():
        return Precompile([Forked(partial(work, codes[::-1][first::count])) for first in range(count)])


def _warm() -> None:
    """Import and read what every compilation needs, once for this process and those forked from it."""
    for name in ("kcheck.ptx.compile", "kcheck.ptx.syntax.parser"):
        import_module(name)
    target = import_module("numba.cuda.descriptor").cuda_target
    target.typing_context.refresh()
    target.target_context.refresh()


def _forked(
    spec: OpSpec, missing: Sequence[Signature], sanitizers: Collection[str], targets: Sequence[str]
) -> Forked:
    from kcheck.device.cpu import surviving_fork

    assert spec.kernel is not None
    dispatcher = load_function(spec.root, spec.kernel)

    def work() -> None:
        # Numba refuses to use a driver after a fork, because NVIDIA's does not survive one. kcheck's does.
        import_module("numba.cuda.cudadrv.driver").driver.pid = os.getpid()
        _compile(dispatcher, missing, targets, sanitizers)

    with surviving_fork():
        return Forked(work)


def _child(
    spec: OpSpec, missing: Sequence[Signature], sanitizers: Collection[str], targets: Sequence[str]
) -> Child:
    """A new process, for use if this one cannot be forked."""
    assert spec.kernel is not None
    major, minor = import_module("numba.cuda").get_current_device().compute_capability
    request = {
        "files": loaded_files(),
        "root": spec.root,
        "kernel": replace(spec.kernel, given=None),
        "signatures": missing,
        "targets": list(targets),
        "sanitizers": sorted(sanitizers),
    }
    return Child(__name__, request, {"KCHECK_CC": f"{major}.{minor}"})


def _missing(spec: OpSpec, known: Iterable[Signature]) -> list[Signature]:
    """The signatures of a spec's kernel that can be cached on disk but are not, in order."""
    assert spec.kernel is not None
    dispatcher = load_function(spec.root, spec.kernel)
    if not hasattr(dispatcher, "py_func"):
        return []
    kept = KeptKernels(dispatcher, kept_kernels())
    absent = []
    for signature in known:
        with contextlib.suppress(NoNumbaType):
            if kept.may_keep(tuple(numba_type(part) for part in signature)):
                absent.append(signature)
    return absent


def _compile(
    dispatcher: Any, signatures: Iterable[Signature], targets: Sequence[str], sanitizers: Collection[str]
) -> None:
    """Compile a kernel. If something does not compile, the case that needs it reports that."""
    from kcheck.device.cpu import CpuBackend

    backend = CpuBackend()
    for signature in signatures:
        made = compile_kernel(dispatcher, [signature], targets, is_linked_as_ptx=True)
        if made and made[0].problem:
            continue
        try:
            kernel = dispatcher.compile(tuple(numba_type(part) for part in signature))
        except Exception as error:
            if is_compiler_error(error):
                continue
            raise
        with contextlib.suppress(PtxError):
            backend.compile(kernel, sanitizers)


def _answer(request: dict[str, Any]) -> None:
    """Handle a request in a new process: compile the signatures."""
    from kcheck.device.cpu import CpuBackend

    CpuBackend()  # before the user's files import numba.cuda
    for root, path in request["files"]:  # any of them may register Numba overloads
        with contextlib.suppress(KernelError):
            load_file(root, path)
    dispatcher = load_function(request["root"], request["kernel"])
    _compile(dispatcher, request["signatures"], request["targets"], request["sanitizers"])


if __name__ == "__main__":
    os.nice(5)  # the cases come first
    _answer(pickle.load(sys.stdin.buffer))
