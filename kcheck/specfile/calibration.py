"""``calibration.yaml`` at a project's root, written by ``kcheck calibrate``, read for ``tolerance: calibrated``.

::

    calibration: 1
    ops:
      softmax:
        seed: 11905773293262258603
        cases: 100
        device: cpu
        kcheck: 0.1.0
        numba-cuda: 0.30.4
        envelopes:
          float32: {envelope: 2.1e-07, cases: 52, median: 1.1e-07, p95: 1.4e-07, largest: 1.6e-07}

Sorted, one line for each dtype, so that git shows what changed.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.model import DTYPES, Calibration, Envelope, Fault, OpSpec, Span, Tolerance
from kcheck.nearest import did_you_mean
from kcheck.specfile.paths import shown
from kcheck.specfile.yamltree import YamlMap, YamlNode, YamlScalar, read
from kcheck.symbolic import shorten

FILE = "calibration.yaml"
VERSION = 1
_ANEW = "fix it, or delete the file and run 'kcheck calibrate' again"
_NUMBERS = ("envelope", "cases", "median", "p95", "largest")
_OF_OP = ("seed", "cases", "device", "kcheck", "numba-cuda", "envelopes")
_HEAD = """\
# Errors of correct kernels, for `tolerance: calibrated`. Written by `kcheck calibrate`, which replaces the
# entries of whole ops. Commit this file.
"""


def output_dtypes(spec: OpSpec) -> tuple[str, ...]:
    """The floating-point dtypes that the spec's outputs can take, sorted."""
    names: set[str] = set()
    for output in spec.outputs.values():
        variable = spec.dtypes.get(output.dtype)
        names.update(variable.choices if variable is not None else (output.dtype,))
    return tuple(sorted(name for name in names if DTYPES[name].is_inexact))


def calibrated(spec: OpSpec) -> OpSpec:
    """The spec with its envelopes if it has ``tolerance: calibrated``; any other spec unchanged.

    Raises:
        SpecError: there is no calibration for one of its output dtypes, or the file is damaged.
    """
    if spec.tolerance.kind != "calibrated":
        return spec
    wanted = output_dtypes(spec)
    known = read_calibrations(Path(spec.root))
    fix = f"run: kcheck calibrate {shlex.quote(shown(Path(spec.root, spec.path)))}"
    found = known.get(spec.op)
    if wanted and found is None:
        what = f"has no op {spec.op!r}" if known else "does not exist"
        raise SpecError([Fault(spec.tolerance.span, f"`tolerance: calibrated`, but {FILE} {what}", fix)])
    envelopes = found.envelopes if found is not None else {}
    missing = [name for name in wanted if name not in envelopes]
    if missing:
        what = f"`tolerance: calibrated`, but {FILE} has no {' and no '.join(missing)} of op {spec.op!r}"
        raise SpecError([Fault(spec.tolerance.span, what, fix)])
    accepted = {name: envelopes[name].envelope for name in wanted}
    return replace(spec, tolerance=replace(spec.tolerance, envelopes=accepted))


def measurable(spec: OpSpec) -> OpSpec:
    """The spec as judged while it is calibrated: by its tolerance, or else by the noise floor."""
    if spec.tolerance.kind != "calibrated":
        return spec
    return replace(spec, tolerance=Tolerance("conditioned", {}, spec.tolerance.span))


def read_calibrations(root: Path) -> dict[str, Calibration]:
    """The calibration of every op in a project's file; empty if there is no file.

    Raises:
        SpecError: the file is damaged; with every error in it.
    """
    path = root / FILE
    if not os.path.lexists(path):
        return {}
    try:
        top, faults = read(path, shown(path))
    except SpecError as error:
        raise SpecError([replace(fault, fix=_ANEW) for fault in error.faults]) from None
    reader = _CalibrationReader(faults)
    found = reader.file(top)
    if reader.faults:
        raise SpecError(sorted(reader.faults))
    return found


class _CalibrationReader:
    """The file while it is read."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults

    def fault(self, span: Span, what: str, fix: str = _ANEW) -> None:
        self.faults.append(Fault(span, what, fix))

    def mapping(self, node: YamlNode, name: str, known: Iterable[str] = ()) -> dict[str, YamlNode]:
        """The entries of a mapping. With ``known``, reports keys that are not in it,
        and the first one that is missing."""
        if not isinstance(node, YamlMap):
            self.fault(node.span, f"{name} must be a mapping")
            return {}
        names = tuple(known)
        for key, entry in node.entries.items():
            if names and key not in names:
                self.fault(
                    entry.span, f"unknown key {shorten(key)!r} in {name}", did_you_mean(key, names) or _ANEW
                )
        missing = [key for key in names if key not in node.entries]
        if missing:
            self.fault(node.span, f"missing key {missing[0]!r} in {name}")
        return {key: entry.value for key, entry in node.entries.items()}

    def file(self, top: YamlMap) -> dict[str, Calibration]:
        parts = self.mapping(top, "the file", ("calibration", "ops"))
        version = parts.get("calibration")
        if version is not None and not (isinstance(version, YamlScalar) and version.value == VERSION):
            self.fault(version.span, f"'calibration' must be {VERSION}: this version of kcheck supports no other")
        ops = self.mapping(parts["ops"], "'ops'") if "ops" in parts else {}
        return {op: calibration for op, node in ops.items() if (calibration := self.op(op, node)) is not None}

    def op(self, op: str, node: YamlNode) -> Calibration | None:
        before = len(self.faults)
        parts = self.mapping(node, f"op {shorten(op)!r}", _OF_OP)
        seed, cases = (self.number(parts.get(key), key, whole=True) for key in ("seed", "cases"))
        device, kcheck, numba = (self.text(parts.get(key), key) for key in ("device", "kcheck", "numba-cuda"))
        envelopes: dict[str, Envelope] = {}
        for name, line in self.mapping(parts["envelopes"], "'envelopes'").items() if "envelopes" in parts else ():
            dtype = DTYPES.get(name)
            if dtype is None or not dtype.is_inexact:
                inexact = [row.name for row in DTYPES.values() if row.is_inexact]
                self.fault(
                    line.span,
                    f"{shorten(name)!r} is not a floating-point dtype",
                    did_you_mean(name, inexact) or _ANEW,
                )
                continue
            numbers = self.mapping(line, f"{name!r}", _NUMBERS)
            values = {key: self.number(numbers.get(key), key, whole=key == "cases") for key in _NUMBERS}
            envelopes[name] = Envelope(
                values["envelope"], int(values["cases"]), values["median"], values["p95"], values["largest"]
            )
        if len(self.faults) > before:
            return None
        versions = {"kcheck": kcheck, "numba-cuda": numba}
        return Calibration(op, int(seed), int(cases), device, versions, envelopes)

    def number(self, node: YamlNode | None, name: str, whole: bool = False) -> float | int:
        """A finite number that is not negative; 0 after an error."""
        if node is None:
            return 0  # the missing key is already reported
        value = node.value if isinstance(node, YamlScalar) else None
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not right or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            noun = "whole number" if whole else "number"
            self.fault(node.span, f"{name!r} must be a finite, non-negative {noun}")
            return 0
        return value

    def text(self, node: YamlNode | None, name: str) -> str:
        if node is None:
            return ""
        if not isinstance(node, YamlScalar) or not node.text:
            self.fault(node.span, f"{name!r} must be a string")
            return ""
        return node.text


def calibration_text(calibrations: Mapping[str, Calibration]) -> str:
    """The whole file."""
    return "\n".join([_HEAD + f"calibration: {VERSION}", "ops:", *_lines(calibrations)]) + "\n"


def _lines(calibrations: Mapping[str, Calibration]) -> Iterator[str]:
    for op, one in sorted(calibrations.items()):
        yield f"  {op}:"
        yield f"    seed: {one.seed}"
        yield f"    cases: {one.cases}"
        yield f"    device: {_quoted(one.device)}"
        yield f"    kcheck: {_quoted(one.versions['kcheck'])}"
        yield f"    numba-cuda: {_quoted(one.versions['numba-cuda'])}"
        yield "    envelopes:"
        for dtype, found in sorted(one.envelopes.items()):
            numbers = ", ".join(
                f"{name}: {getattr(found, name)}" if name == "cases" else f"{name}: {getattr(found, name):.3e}"
                for name in _NUMBERS
            )
            yield f"      {dtype}: {{{numbers}}}"


def _quoted(text: str) -> str:
    """The text, quoted if YAML would not read it as a string, such as a version that looks like a number."""
    if text.replace("-", "").isalpha():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
