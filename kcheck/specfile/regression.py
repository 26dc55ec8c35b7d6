"""``regression:`` of a spec, and of ``kcheck.yaml`` for all of a project's: how much worse a number may become."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.model import Fault
from kcheck.model.baseline import MEASURES, Limit
from kcheck.specfile.paths import shown
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlMap, YamlNode, YamlScalar, read
from kcheck.symbolic import did_you_mean, shorten

FILE = "kcheck.yaml"
_LIMIT = re.compile(r"\+?([0-9]{1,9}(?:\.[0-9]{1,6})?)([%x]?)")


def limit_of(text: str) -> Limit | None:
    """``+4`` or ``4``: by so much; ``10%``, ``1.1x``: to so much of it; ``off``: anything. None: no limit."""
    if text == "off":
        return Limit()
    found = _LIMIT.fullmatch(text)
    if found is None:
        return None
    number = float(found[1])
    if found[2] == "%":
        return Limit(times=1 + number / 100)
    if found[2] == "x":
        return Limit(times=number) if number >= 1 else None
    return Limit(more=number)


def read_regression(reader: Reader, node: YamlNode | None) -> Mapping[str, Limit]:
    """The limits that a mapping gives, by measure. What is wrong is a fault of the reader."""
    found = {}
    for entry in reader.entries(node):
        if entry.key not in MEASURES or not isinstance(entry.value, YamlScalar):
            continue  # the schema has said so
        limit = limit_of(entry.value.text)
        if limit is None:
            mend = (
                "a factor is at least 1: 1.5x allows half as much again" if entry.value.text.endswith("x") else ""
            )
            reader.fault(entry.value.span, f"{shorten(entry.value.text)!r} is no limit", mend or _MEND)
        else:
            found[entry.key] = limit
    return found


_MEND = "write +4, 10%, 1.5x or off"


def project_limits(root: Path) -> Mapping[str, Limit]:
    """The limits in ``kcheck.yaml`` of a project; none where there is no such file, or nothing in it.

    Raises:
        SpecError: it holds something else, or what is no limit; with every fault.
    """
    path = root / FILE
    if not os.path.isfile(path) or not any(
        line.strip() and not line.lstrip().startswith((b"#", b"---")) for line in path.read_bytes().splitlines()
    ):
        return {}
    top, faults = read(path, shown(path))
    reader = Reader(root, shown(path), top)
    reader.faults += faults
    for entry in top.entries.values():
        if entry.key != "regression":
            reader.fault(
                entry.span, f"unknown key {shorten(entry.key)!r}", did_you_mean(entry.key, ["regression"])
            )
    limits = top.entries.get("regression")
    if limits is not None and not isinstance(limits.value, YamlMap):
        reader.fault(
            limits.value.span, "'regression' must be a mapping of limits", "write regression: {registers: +4}"
        )
    for entry in reader.entries(limits.value if limits is not None else None):
        if entry.key not in MEASURES:
            mend = did_you_mean(entry.key, MEASURES) or f"there are {', '.join(MEASURES)}"
            reader.fault(entry.span, f"unknown measure {shorten(entry.key)!r}", mend)
        elif not isinstance(entry.value, YamlScalar):
            reader.fault(entry.value.span, f"{entry.key} must be a limit", _MEND)
    found = read_regression(reader, limits.value if limits is not None else None)
    if reader.faults:
        raise SpecError([fault for fault in reader.faults if isinstance(fault, Fault)])
    return found
