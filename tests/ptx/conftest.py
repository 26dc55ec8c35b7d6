"""Vectors of 32 lanes run in a soak where a test has 8 or 16, too: those are what processors with AVX2 and AVX-512
get, and compiling for 32 takes longest."""

from __future__ import annotations

from collections import defaultdict

import pytest

WIDEST = 32


@pytest.hookimpl(tryfirst=True)  # before items are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    widths: dict[tuple[str, str], set[object]] = defaultdict(set)
    parametrized = [item for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    parametrized = [item for item in parametrized if item.path.parent.name == "ptx"]
    for item in parametrized:
        widths[str(item.path), item.originalname].add(item.callspec.params.get("width"))
    for item in parametrized:
        if item.callspec.params.get("width") == WIDEST and widths[str(item.path), item.originalname] & {8, 16}:
            item.add_marker(pytest.mark.soak)
