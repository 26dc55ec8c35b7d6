"""The counts of a checker through OpenTelemetry and prometheus_client, where they are installed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from kcheck.errors import UserError
from kcheck.monitor import EquivalenceChecker, export


def counted() -> EquivalenceChecker:
    """Three calls, one of which differs, and one that is too large."""
    checker = EquivalenceChecker()

    def app(x: np.ndarray) -> np.ndarray:
        return x * (x != 3)

    app.__module__, app.__qualname__ = "mine", "app"
    monitored = checker.equivalent(lambda x: x, lambda mismatch: None)(app)
    with checker.start(sample_probability=1.0, max_queue_bytes=1000):
        for n in (1, 3, 5):
            monitored(np.full(2, float(n)))
            checker.flush()
        monitored(np.ones(1000))
    return checker


def test_opentelemetry() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    export.opentelemetry(counted(), MeterProvider([reader]).get_meter("test"))
    data: Any = reader.get_metrics_data()
    points = {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    mine = {"function": "mine.app"}
    assert points["kcheck_monitor.calls"] == [(4, mine)]
    assert points["kcheck_monitor.mismatches"] == [(1, mine)]
    assert points["kcheck_monitor.dropped"] == [(1, {**mine, "reason": "too large"})]
    assert points["kcheck_monitor.pending"] == points["kcheck_monitor.queue_bytes"] == [(0, {})]


def test_prometheus_client_reads_what_the_text_says() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    checker, registry = counted(), prometheus.CollectorRegistry()
    export.prometheus(checker, registry)

    def samples(text: str) -> set[Any]:
        return {
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    text = checker.stats().prometheus()
    assert samples(prometheus.generate_latest(registry).decode()) == samples(text)
    assert ("kcheck_monitor_checked_total", (("function", "mine.app"),), 3.0) in samples(text)


@pytest.mark.parametrize(
    ("package", "function"), [("opentelemetry", "opentelemetry"), ("prometheus_client", "prometheus")]
)
def test_a_package_that_is_missing(package: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"cannot be imported: .*; pip install \w+-\w+"):
        getattr(export, function)()
