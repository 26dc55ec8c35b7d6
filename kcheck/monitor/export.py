"""Export a checker's counts to OpenTelemetry and prometheus_client.

Each package is imported when it is used; :meth:`Stats.prometheus` needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kcheck.errors import UserError
from kcheck.monitor.checker import EquivalenceChecker
from kcheck.monitor.stats import COUNTERS, PREFIX, FunctionStats


def opentelemetry(checker: EquivalenceChecker | None = None, meter: Any = None) -> None:
    """Report the counts of a checker as OpenTelemetry metrics, each time that a reader collects them.

    The counters ``kcheck_monitor.calls``, ``.checked``, ``.mismatches`` ... have an attribute ``function``,
    ``kcheck_monitor.dropped`` also ``reason``; ``kcheck_monitor.pending`` and ``.queue_bytes`` are gauges.

    Args:
        checker: None: the default checker.
        meter: an OpenTelemetry meter; None: the global provider's.

    Raises:
        UserError: there is no meter, and OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise UserError(f"OpenTelemetry cannot be imported: {error}; pip install opentelemetry-sdk") from None
    source = checker or EquivalenceChecker.default()
    found = meter or metrics.get_meter("kcheck.monitor")

    def observed(read: Callable[[], Iterable[tuple[int, dict[str, str]]]]) -> Callable[[Any], Iterator[Any]]:
        return lambda options: (metrics.Observation(value, labels) for value, labels in read())

    def counter(name: str) -> Callable[[], Iterator[tuple[int, dict[str, str]]]]:
        return lambda: (
            (int(getattr(counts, name)), {"function": function})
            for function, counts in source.stats().functions.items()
        )

    for name, what in COUNTERS.items():
        found.create_observable_counter(f"{PREFIX}.{name}", [observed(counter(name))], description=what)
    found.create_observable_counter(
        f"{PREFIX}.dropped",
        [observed(lambda: _dropped(source.stats().functions.items()))],
        description="Calls dropped before they were checked.",
    )
    for name, what, _ in source.stats().gauges():

        def gauge(name: str = name) -> list[tuple[int, dict[str, str]]]:
            return [(int(getattr(source.stats(), name)), {})]

        found.create_observable_gauge(f"{PREFIX}.{name}", [observed(gauge)], description=what)


def _dropped(functions: Iterable[tuple[str, FunctionStats]]) -> Iterator[tuple[int, dict[str, str]]]:
    for function, counts in functions:
        for reason, count in counts.dropped.items():
            yield count, {"function": function, "reason": reason}


def prometheus(checker: EquivalenceChecker | None = None, registry: Any = None) -> None:
    """Register the counts of a checker with ``prometheus_client``.

    Args:
        checker: None: the default checker.
        registry: None: the global one.

    Raises:
        UserError: ``prometheus_client`` is not installed.
    """
    try:
        from prometheus_client import REGISTRY
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as error:
        raise UserError(f"prometheus_client cannot be imported: {error}; pip install prometheus-client") from None
    source = checker or EquivalenceChecker.default()

    class Collector:
        def collect(self) -> Iterator[Any]:
            found = source.stats()
            for name, what in COUNTERS.items():
                family = CounterMetricFamily(f"{PREFIX}_{name}", what, labels=["function"])
                for function, counts in found.functions.items():
                    family.add_metric([function], getattr(counts, name))
                yield family
            family = CounterMetricFamily(
                f"{PREFIX}_dropped", "Calls dropped before they were checked.", labels=["function", "reason"]
            )
            for value, labels in _dropped(found.functions.items()):
                family.add_metric([labels["function"], labels["reason"]], value)
            yield family
            for name, what, value in found.gauges():
                yield GaugeMetricFamily(f"{PREFIX}_{name}", what, value)

    (registry or REGISTRY).register(Collector())
