"""Two hundred and more kernels that mean harm: each a finding or numba's exception, and the process lives.

After each the same process runs a good kernel, which must come out right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from device_child import DeviceChild
from row import Case

SECONDS = 60.0
MEGABYTES = 6000
PRINTED = 4 << 20
TOGETHER = {
    "culprit",
    "endless",
    "recursion",
    "trap",
    "division",
    "barrier",
    "mask",
    "cooperative",
    "tempting",
    "printf",
}
"""Families in which it matters what other lanes do."""
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device; a case that kills it gets the blame, and the next one a new process."""
    made = DeviceChild(HERE / "on_device.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


def test_there_are_two_hundred() -> None:
    """The table holds at least 200 different kernels and launches."""
    assert len({(case.kernel, case.launch) for case in CASES.values()}) >= 200


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_hostile_kernel_does_no_harm(child: DeviceChild, case: Case) -> None:
    """The finding has rule, words, array, index, block, thread and line; the exception is numba's; all goes on."""
    check(case, child.ask({"case": case.id, "width": None}, SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.family in TOGETHER])
def test_a_hostile_kernel_does_no_harm_at_one_lane(child: DeviceChild, name: str) -> None:
    """The same at one lane per vector: the code that the wide one is compared with finds the same."""
    case = CASES[name]
    check(case, child.ask({"case": case.id, "width": 1}, SECONDS))


def check(case: Case, result: dict[str, Any]) -> None:
    """Hold what became of a case against its row."""
    told = [(f["rule"], f["message"]) for f in result["findings"]]
    if case.raises is None:
        assert result["raised"] is None, told
    else:
        assert result["raised"] is not None, told
        assert re.search(case.raises, result["raised"]), told
    if case.rule is None:
        assert told == []
    else:
        assert case.rule in [rule for rule, _ in told]
        finding = next(f for f in result["findings"] if f["rule"] == case.rule)
        assert re.search(case.says or "", finding["message"]), finding["message"]
        for field in ("array", "index", "block", "thread"):
            wanted = getattr(case, field)
            if wanted is not None:
                assert (finding[field] if field == "array" else tuple(finding[field] or ())) == wanted, finding
        if result["line"] is not None:
            assert finding["line"] == result["line"], finding
    if case.value is not None:
        assert result["value"] == case.value
    assert result["good"], "the good kernel after it went wrong"
    assert result["printed"] < PRINTED
    assert result["megabytes"] < MEGABYTES
