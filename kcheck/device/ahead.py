"""Compile a kernel's specializations in a second process, beside the cases, into the caches on disk.

On the cpu device a case waits for its specialization to be compiled, up to a second or two, in Python for the most
part: another thread would not help, another process does. It begins with what is wanted last, and leaves what it
makes where this process looks before it compiles; where they meet both compile the same one, to the same end.
Nothing waits for it, nothing depends on it.
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
"""Specializations to be compiled, that a process is started for: it takes as long to start as two of them."""


class Ahead:
    """A spec's kernel is compiled ahead, from now on until :meth:`cancel`.

    Args:
        spec: with ``launch:`` and ``artifact:``, whose kernel is loaded.
        missing: what to compile, the first last.
        sanitizers: that code is to be compiled with, beside code without any.
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
        """Whether it is still at it."""
        return self._child.running

    def cancel(self) -> None:
        """End it, however far it is."""
        self._child.kill()


def begin(spec: OpSpec, cases: Iterable[Case], sanitizers: Collection[str]) -> Ahead | None:
    """Compile the kernel of a spec with ``launch:`` and ``artifact:`` ahead of its cases, the last first.

    None where that would gain nothing: a single processor, or little to compile that no cache has. The cpu device
    runs in this process, and the kernel is loaded.
    """
    if len(os.sched_getaffinity(0)) < 2:
        return None
    absent = _missing(spec, in_order(spec, cases))
    return Ahead(spec, absent, sanitizers) if len(absent) >= LEAST else None


def _missing(spec: OpSpec, known: Iterable[Signature]) -> list[Signature]:
    """Those signatures of a spec's kernel that no cache on disk has, and could have, in order."""
    assert spec.kernel is not None
    dispatcher = load_function(spec.root, spec.kernel)
    if not hasattr(dispatcher, "py_func"):
        return []
    kept = KeptKernels(dispatcher, kept_kernels())
    absent = []
    for signature in known:
        with contextlib.suppress(KernelError):  # a dtype that Numba has no type for
            if kept.may_keep(tuple(numba_type(part) for part in signature)):
                absent.append(signature)
    return absent


def _compile(request: dict[str, Any]) -> None:
    """Compile what is asked for. What does not compile is told by the case that needs it."""
    from kcheck.device.cpu import CpuBackend

    backend = CpuBackend()
    for root, path in request["files"]:  # Numba's overloads may be registered by any of them
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
