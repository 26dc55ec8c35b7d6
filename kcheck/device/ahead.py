"""Compile a kernel's specializations in a second process, in parallel with the cases, into the disk caches. On the
cpu device a case waits up to a second or two until its specialization is compiled. Most of that time is spent in
Python, so another thread would not help, but another process does. It starts with the specialization that is
needed last, and stores results where this process looks before it compiles. When the two meet, both compile the
same specialization, with the same result. Nothing waits for the second process, and nothing depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from kcheck.device.artifact import compile_kernel, from_json, numba_type, to_json
from kcheck.device.child import Child
from kcheck.device.frozen import KeptKernels, kept_kernels
from kcheck.device.specialize import in_order
from kcheck.errors import KernelError, PtxError
from kcheck.model import Case, Function, OpSpec, Span
from kcheck.model.compiled import Signature
from kcheck.specfile.load import load_file, load_function, loaded_files

LEAST = 3
"""The minimum number of specializations that is worth a process, which takes as long to start as two of them."""


class Ahead:
    """Compiles a spec's kernel ahead, until :meth:`cancel`.

    Args:
        spec: with ``launch:`` and ``artifact:``, whose kernel is loaded.
        missing: what to compile, in reverse order.
        sanitizers: also compile code with these, in addition to code without any.
    """

    def __init__(self, spec: OpSpec, missing: Sequence[Signature], sanitizers: Collection[str]) -> None:
        assert spec.kernel is not None
        assert spec.artifact is not None
        major, minor = import_module("numba.cuda").get_current_device().compute_capability
        request = {
            "files": loaded_files(),
            "root": spec.root,
            "kernel": asdict(spec.kernel),
            "signatures": [[to_json(part) for part in signature] for signature in reversed(missing)],
            "targets": list(spec.artifact.targets),
            "sanitizers": sorted(sanitizers),
        }
        self._child = Child(__name__, request, {"KCHECK_CC": f"{major}.{minor}"})

    @property
    def running(self) -> bool:
        """Whether it is still compiling."""
        return self._child.running

    def cancel(self) -> None:
        """End it, finished or not."""
        self._child.kill()


def begin(spec: OpSpec, cases: Iterable[Case], sanitizers: Collection[str]) -> Ahead | None:
    """Compile the kernel of a spec with ``launch:`` and ``artifact:`` ahead of its cases, the last first.

    None if that would not help: there is a single processor, or little that is not cached. The cpu device must be
    running in this process, and the kernel loaded.
    """
    if len(os.sched_getaffinity(0)) < 2:
        return None
    absent = _missing(spec, in_order(spec, cases))
    return Ahead(spec, absent, sanitizers) if len(absent) >= LEAST else None


def _missing(spec: OpSpec, known: Iterable[Signature]) -> list[Signature]:
    """The signatures of a spec's kernel that could be cached on disk and are not, in order."""
    assert spec.kernel is not None
    dispatcher = load_function(spec.root, spec.kernel)
    if not hasattr(dispatcher, "py_func"):
        return []
    kept = KeptKernels(dispatcher, kept_kernels())
    absent = []
    for signature in known:
        with contextlib.suppress(KernelError):  # a dtype without a Numba type
            if kept.may_keep(tuple(numba_type(part) for part in signature)):
                absent.append(signature)
    return absent


def _compile(request: dict[str, Any]) -> None:
    """Compile a request. If something does not compile, the case that needs it reports that."""
    from kcheck.device.cpu import CpuBackend

    backend = CpuBackend()
    for root, path in request["files"]:  # any of them may register Numba overloads
        with contextlib.suppress(KernelError):
            load_file(root, path)
    function = Function(**(request["kernel"] | {"span": Span(**request["kernel"]["span"])}))
    dispatcher: Any = load_function(request["root"], function)
    for row in request["signatures"]:
        signature = tuple(from_json(part) for part in row)
        (made, *_) = compile_kernel(dispatcher, [signature], request["targets"], is_linked_as_ptx=True)
        if not made.problem:
            kernel = dispatcher.compile(tuple(numba_type(part) for part in signature))
            with contextlib.suppress(PtxError):
                backend.compile(kernel, request["sanitizers"])


if __name__ == "__main__":
    os.nice(5)  # the cases come first
    _compile(json.loads(sys.stdin.buffer.read()))
