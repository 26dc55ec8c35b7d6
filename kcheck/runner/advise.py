"""The linter's advice on the PTX that has just run, as notes of a run: once per line, not per case.

Only for the cpu device, which has the PTX in memory. The findings are cached by a digest of the PTX, so that a run
with full caches reads one small file per specialization and does not import the parser.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kcheck.device import Device
from kcheck.interpreter import no_collection
from kcheck.model import Case, Finding, FunctionRef, Index3, OpSpec, Span
from kcheck.span import as_typed
from kcheck.specfile.kinds import KINDS
from kcheck.specfile.load import load_function

if TYPE_CHECKING:
    from kcheck.cpu.cache import ObjectCache
    from kcheck.model.compiled import Launched, Signature

_SHOWN = 5  # the most notes for one spec
_ASKED = 8  # the most cases whose blocks are computed


def without_debug_code(spec: OpSpec) -> tuple[str, ...]:
    """A note if a spec should run unoptimized code, but its kernels have none."""
    if not spec.debug_code or (spec.kernel is not None and "debug" in KINDS[spec.kernel.kind].keys):
        return ()
    why = "kcheck does not compile what its launcher launches"
    if spec.kernel is not None:
        why = f"kcheck has no unoptimized code of {KINDS[spec.kernel.kind].title}"
    elif spec.function is not None:
        why = "it checks a function"
    return (f"--debug-code changes nothing for this spec: {why}",)


def advice_notes(
    spec: OpSpec, device: Device, cases: Sequence[Case], launched: Callable[[], Sequence[Launched]]
) -> tuple[str, ...]:
    """``lint: kernels/k.py:9, 12: 0.1 is a float64 constant ...; write np.float32(0.1)``; equal advice is
    given once.

    Args:
        device: the device on which the cases ran; only one that compiles in this process has PTX to examine.
        cases: the cases that were run.
        launched: returns what they launched, like :meth:`kcheck.device.base.Device.launched`.
    """
    if not device.compiles_in_process or not cases or (spec.kernel is not None and spec.kernel.kind != "numba"):
        return ()
    found: dict[tuple[str, Span | None], Finding] = {}
    for function, block in _kernels(spec, cases, launched):
        for finding in _advice(load_function(spec.root, function), block):
            found.setdefault((finding.rule, finding.place), finding)
    lines: dict[tuple[str, str, str], set[int]] = {}
    for one in found.values():
        if one.place is not None:
            lines.setdefault((one.place.file, one.message, one.fix), set()).add(one.place.line)
    notes = [
        f"lint: {file}:{', '.join(map(str, sorted(at)))}: {message}; {fix}"
        for (file, message, fix), at in lines.items()
    ]
    if len(notes) > _SHOWN:
        more = len(notes) - _SHOWN + 1
        notes[_SHOWN - 1 :] = [f"lint: {more} more warnings; run `kcheck lint {as_typed_spec(spec)}`"]
    return tuple(notes)


def as_typed_spec(spec: OpSpec) -> str:
    """The path of a spec as the user would type it."""
    return as_typed(os.path.join(spec.root, spec.path))


def _kernels(
    spec: OpSpec, cases: Sequence[Case], launched: Callable[[], Sequence[Launched]]
) -> Iterator[tuple[FunctionRef, Index3]]:
    """The Numba kernels of a spec, each with the block that it is usually launched with."""
    if spec.kernel is not None and spec.launch is not None:
        from kcheck.device.plan import LaunchFault, geometry, unrounded

        blocks: Counter[Index3] = Counter()
        for case in cases[:_ASKED]:
            try:
                blocks[geometry(spec.launch, unrounded(case)).block] += 1
            except LaunchFault:
                continue
        if blocks:
            yield spec.kernel, blocks.most_common(1)[0][0]
        return
    from kcheck.runner.artifact import kernels_launched

    for kernel in kernels_launched(spec, launched(), []):
        if not kernel.codes:
            yield kernel.function, kernel.largest[0]


def _advice(dispatcher: Any, block: Index3) -> Iterator[Finding]:
    """The linter's warnings about every specialization that this process has compiled or loaded."""
    from kcheck.device.launched import signature_of_types
    from kcheck.driver.kernel_cache import kept_kernels
    from kcheck.ptx.abi import row_of

    store = kept_kernels()
    for types, compiled in getattr(dispatcher, "overloads", {}).items():
        signature = signature_of_types(types)
        if signature is not None:
            ptx = compiled.library.get_cubin().code.decode()
            yield from _kept(store, ptx, compiled.entry_name, dispatcher, signature, row_of(block))


def _kept(
    store: ObjectCache, ptx: str, entry: str, dispatcher: Any, signature: Signature, lanes: int
) -> tuple[Finding, ...]:
    digest = hashlib.blake2b(ptx.encode(), digest_size=16).hexdigest()
    key = repr(("lint", digest, entry, str(signature), lanes))
    kept: tuple[Finding, ...] | None = store.load(key)
    if kept is None:
        kept = tuple(_of_all_folders(finding) for finding in _look(ptx, entry, dispatcher, signature, lanes))
        store.store(key, kept)
    return tuple(
        replace(finding, place=replace(finding.place, file=as_typed(finding.place.file)))
        for finding in kept
        if finding.place is not None
    )


def _of_all_folders(finding: Finding) -> Finding:
    """The finding with the absolute path: all folders share the cache."""
    assert finding.place is not None
    return replace(finding, place=replace(finding.place, file=os.path.abspath(finding.place.file)))


def _look(ptx: str, entry: str, dispatcher: Any, signature: Signature, lanes: int) -> tuple[Finding, ...]:
    from kcheck.errors import PtxError
    from kcheck.linter.advice import advice
    from kcheck.model.compiled import CompiledKernel
    from kcheck.ptx.syntax.parser import parse

    code = dispatcher.py_func.__code__
    place = Span(as_typed(os.path.realpath(code.co_filename)), code.co_firstlineno)
    kernel = CompiledKernel(dispatcher.py_func.__name__, place, signature, "", entry, ptx)
    try:
        with no_collection():  # it would visit all objects that Numba has made
            module = parse(ptx)
            return advice(kernel, module, module.functions[entry], lanes)
    except (PtxError, KeyError):  # PTX that the linter cannot follow; `kcheck lint` says why
        return ()
