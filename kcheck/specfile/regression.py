"""``regression:`` in a spec or in the settings of a project: how much worse a number may become."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kcheck.model.baseline import MEASURES, Limit
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlNode, YamlScalar
from kcheck.symbolic import shorten

_LIMIT = re.compile(r"\+?([0-9]{1,9}(?:\.[0-9]{1,6})?)([%x]?)")


_FIX = "write +4, 10%, 1.5x or off"


def limit_of(text: str) -> Limit | None:
    """The limit that a text sets: ``+4`` and ``4`` allow a number to get worse by 4, ``10%`` and ``1.1x`` by a
    tenth, ``off`` by any amount. None: the text is not a limit."""
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
    """The limits in a mapping, by measure. Reports errors that the schema cannot express."""
    found = {}
    for entry in reader.entries(node):
        if entry.key not in MEASURES or not isinstance(entry.value, YamlScalar):
            continue  # the schema reports it
        limit = limit_of(entry.value.text)
        if limit is not None:
            found[entry.key] = limit
        elif entry.value.text.endswith("x") and _LIMIT.fullmatch(entry.value.text):
            what = f"the factor {entry.value.text} is less than 1"
            reader.fault(entry.value.span, what, "1.5x allows an increase of 50%")
        elif not isinstance(entry.value.value, str):  # the schema reports text
            reader.fault(entry.value.span, f"{shorten(entry.value.text)} is not a limit", _FIX)
    return found
