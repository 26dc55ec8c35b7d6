"""How long a call of an array function may take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcheck.alarm import TimedOut
from kcheck.device import host
from kcheck.device.host import HostDevice
from kcheck.model import Framework

SPEC: Any = SimpleNamespace(root="project", runs="ops.py:f")
COMPILES = 300.0


def arrays(size: int, dtype: str = "float32") -> Any:
    return SimpleNamespace(allocations={"x": SimpleNamespace(shape=(size,), dtype=SimpleNamespace(name=dtype))})


def limit(device: HostDevice, framework: str, given: Any, timeout: float | None = 20.0) -> float | None:
    return device._limit(SPEC, given, Framework(framework), timeout)


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_the_first_call_with_new_shapes_or_dtypes_may_compile(framework: str) -> None:
    device = HostDevice()
    assert limit(device, framework, arrays(8)) == COMPILES
    assert limit(device, framework, arrays(8)) == 20.0
    assert limit(device, framework, arrays(33)) == COMPILES
    assert limit(device, framework, arrays(33, "float64")) == COMPILES
    assert limit(device, framework, arrays(33)) == 20.0


def test_numpy_compiles_nothing() -> None:
    assert limit(HostDevice(), "numpy", arrays(8)) == 20.0


def test_no_limit_stays_none() -> None:
    assert limit(HostDevice(), "torch", arrays(8), None) is None


def test_a_function_that_timed_out_gets_no_time_to_compile_again() -> None:
    device = HostDevice()
    device._endless.add((SPEC.root, SPEC.runs))
    assert limit(device, "torch", arrays(8)) == 20.0


def test_a_timeout_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> Any:
        raise TimedOut("the function", 20.0)

    monkeypatch.setattr(host, "_loaded", lambda _: (abs, Framework("numpy")))
    monkeypatch.setattr(host, "_called", stopped)
    monkeypatch.setattr(host, "_notes", lambda _: ())
    monkeypatch.setattr(host, "_place", lambda *_: None)
    device, given = HostDevice(), arrays(8)
    given.case = None
    outcome = device.run(SPEC, given, timeout=20.0)
    assert [finding.rule for finding in outcome.findings] == ["timeout"]
    assert limit(device, "torch", arrays(8)) == 20.0
