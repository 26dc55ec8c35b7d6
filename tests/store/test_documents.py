"""Stored values read back as they were, also from stores that an earlier version wrote."""

from __future__ import annotations

import json

from kcheck.model import Comparison, Element, ErrorMap, Finding
from kcheck.store.documents import dumps, loads


def test_names_of_version_0_1_are_read() -> None:
    """A finding kept its fix under "mend" and a comparison its map of errors under "spread"."""
    finding = Finding("memcheck", "reads past the end", fix="check the index")
    old = json.loads(dumps(finding))
    old["mend"] = old.pop("fix")
    assert loads(json.dumps(old), Finding) == finding

    element = Element((3,), 1.0, 2.0, 1.0, 0.5)
    comparison = Comparison("y", "float32", (4,), "fixed", False, 4, error_map=ErrorMap((element,), ("0009",)))
    old = json.loads(dumps(comparison))
    old["spread"] = {**old.pop("error_map"), "is": "Spread"}
    assert loads(json.dumps(old), Comparison) == comparison
