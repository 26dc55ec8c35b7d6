"""Kernels in PTX files, which are loaded unchanged."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kcheck.device.kinds.base import NotCompiled
from kcheck.device.kinds.compiled import CompiledKind
from kcheck.device.kinds.entry import find_entry, missing_labels, ptx_parameters, undefined
from kcheck.device.modules import Unit
from kcheck.errors import PtxError, SpecError
from kcheck.model import Case, Fault, Finding, KernelRef, OpSpec, Span
from kcheck.span import as_typed
from kcheck.specfile.kinds.ptx import read_ptx
from kcheck.specfile.kinds.text import read_text


class _PtxFiles:
    """A :class:`kcheck.device.kinds.compiled.Compiler`."""

    def load(self, spec: OpSpec, target: str = "") -> None:
        """Parse the file; compare its target with the device's, and the number of its parameters with ``args``."""
        assert spec.kernel is not None
        own = read_ptx(Path(spec.root) / spec.kernel.path).target
        if target and _number(own) > _number(target):
            what = f"{spec.kernel} is compiled for {own}, but this device is {target}"
            fix = f"set KCHECK_CC={_number(own) // 10}.{_number(own) % 10}, or compile it for an older target"
            raise SpecError([Fault(spec.kernel.span, what, fix)])
        try:
            unit = _read(spec.root, spec.kernel)
        except NotCompiled:
            return  # each case reports it
        if spec.launch is not None and len(spec.launch.args) != len(unit.parameters):
            count, told = len(unit.parameters), ", ".join(parameter.told for parameter in unit.parameters)
            what = f"kernel {spec.kernel.name!r} takes {count} argument{'s' * (count != 1)}"
            what += f", but args has {len(spec.launch.args)}"
            raise SpecError([Fault(spec.launch.span, what, f"its parameters are {told}" if told else "")])

    def known(self, spec: OpSpec) -> tuple[Collection[str], Collection[str]]:
        """The entries of the file."""
        assert spec.kernel is not None
        return tuple(read_ptx(Path(spec.root) / spec.kernel.path).entries), ()

    def unit(self, spec: OpSpec, case: Case, target: str, name: str = "") -> Unit:
        """The kernel, which is the same for every case. Raises NotCompiled for invalid PTX."""
        assert spec.kernel is not None
        return _read(spec.root, replace(spec.kernel, name=name) if name else spec.kernel)


def _number(target: str) -> int:
    return int(re.sub(r"\D", "", target) or 0)


def _read(root: str, kernel: KernelRef) -> Unit:
    path = os.path.join(root, kernel.path)
    status = os.stat(path)
    return _parsed(path, kernel, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _parsed(path: str, kernel: KernelRef, size: int, _changed: int) -> Unit:
    from kcheck.ptx.syntax.parser import parse  # lazy: only a run with PTX files needs it

    text = read_text(Path(path), size)
    try:
        module = parse(text, as_typed(path))
    except PtxError as error:
        raise NotCompiled(_invalid(error.what, kernel, path, error.place.line if error.place else 1)) from None
    entry = find_entry(module, kernel.name, kernel.span)
    if faults := [
        Fault(Span(as_typed(path), line, 1), f"{name} is declared .extern, and the file does not define it", _LINK)
        for name, line in undefined(module, entry).items()
    ]:
        raise SpecError(faults)
    if labels := missing_labels(module, entry):
        raise NotCompiled(
            *(
                _invalid(f"label {label} is not defined in {function.name}", kernel, path, line)
                for label, function, line in labels
            )
        )
    target = read_ptx(Path(path)).target
    place = Span(as_typed(path), entry.line, 1)
    return Unit(kernel, place, kernel.name, target, named(text, path), entry.name, ptx_parameters(entry))


def _invalid(what: str, kernel: KernelRef, path: str, line: int) -> Finding:
    place = Span(as_typed(path), line, 1)
    return Finding("compile", f"does not compile: {what}", kernel=kernel.name, place=place)


_LINK = "link the file that defines it, and give the linked PTX"


def named(text: str, path: str) -> str:
    """PTX with the name of its file in a comment at its end, for messages."""
    return f"{text.rstrip()}\n// kcheck-file: {os.path.realpath(path)}\n"


PTX = CompiledKind("ptx", _PtxFiles())
