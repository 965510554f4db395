"""Plain counters, gauges and histograms, shown to Prometheus by a collector that reads them.

The event loop's thread is the only writer, so there is no lock: a hot path holds its `Counter`
and does `counter.value += n`. Values that exist already (queue sizes, ages) come through
callbacks at scrape time. Names are in `metric_names`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from mirrorfleet.runtime.metric_names import SERIES_REFUSED, Kind, Metric

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]

MAX_SERIES: Final = 2_000
"""Series a metric: 1,000 topics on two links. More would cost the scraper, and say little."""
OTHER: Final = "(other)"


class Counter:
    """Only grows; write `value` directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        """Grow by `amount`."""
        self.value += amount


class Gauge:
    """Goes up and down; write `value` directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value


class Histogram:
    """Counts in fixed buckets; `counts[-1]` is above the last bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, weight: int = 1) -> None:
        """Count `value` for `weight` things (a batch of n records is n)."""
        self.counts[bisect_left(self.bounds, value)] += weight
        self.total += value * weight


_Series = TypeVar("_Series", Counter, Gauge, Histogram)


class _Table(Generic[_Series]):
    """The series of one metric by label values."""

    def __init__(self, make: Callable[[], _Series]) -> None:
        self.make: Callable[[], _Series] = make
        self.rows: dict[Labels, _Series] = {}


class Metrics:
    """The registry of one process."""

    def __init__(self) -> None:
        self._counters: dict[Metric, _Table[Counter]] = {}
        self._gauges: dict[Metric, _Table[Gauge]] = {}
        self._histograms: dict[Metric, _Table[Histogram]] = {}
        self._callbacks: list[tuple[Metric, Callable[[], Samples]]] = []

    def counter(self, metric: Metric, *labels: str) -> Counter:
        """The counter of `metric` with these label values, made at first use; keep it.

        Raises:
            ValueError: another kind of metric, or the wrong number of labels.
        """
        _check(metric, Kind.COUNTER, labels)
        table = self._counters.setdefault(metric, _Table(Counter))
        return self._row(metric, table, labels)

    def gauge(self, metric: Metric, *labels: str) -> Gauge:
        """The gauge, as `counter`."""
        _check(metric, Kind.GAUGE, labels)
        return self._row(metric, self._gauges.setdefault(metric, _Table(Gauge)), labels)

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """The histogram, as `counter`."""
        _check(metric, Kind.HISTOGRAM, labels)
        table = self._histograms.setdefault(metric, _Table(lambda: Histogram(metric.buckets)))
        return self._row(metric, table, labels)

    def on_scrape(self, metric: Metric, callback: Callable[[], Samples]) -> None:
        """Ask `callback` for (label values, value) pairs of a gauge or counter at each scrape."""
        if metric.kind is Kind.HISTOGRAM:
            raise ValueError(f"{metric.name} is a histogram: observe it")
        self._callbacks.append((metric, callback))

    def forget(self, metric: Metric, *labels: str) -> None:
        """Show this series no longer (its topic or slot is gone)."""
        for tables in (self._counters, self._gauges, self._histograms):
            table = tables.get(metric)
            if table is not None:
                table.rows.pop(labels, None)

    def families(self) -> Iterator[Family]:
        """Every metric as Prometheus families, each name once."""
        for metric, counters in self._counters.items():
            yield _family(metric, ((key, row.value) for key, row in counters.rows.items()))
        for metric, gauges in self._gauges.items():
            yield _family(metric, ((key, row.value) for key, row in gauges.rows.items()))
        for metric, histograms in self._histograms.items():
            yield _histogram_family(metric, histograms)
        asked: dict[Metric, list[tuple[Labels, float]]] = {}
        for metric, callback in self._callbacks:
            asked.setdefault(metric, []).extend(callback())
        for metric, samples in asked.items():
            yield _family(metric, samples)

    def _row(self, metric: Metric, table: _Table[_Series], labels: Labels) -> _Series:
        row = table.rows.get(labels)
        if row is not None:
            return row
        if len(table.rows) >= MAX_SERIES:
            self.counter(SERIES_REFUSED, metric.name).add()
            # not the first one, which is a link where there are several: its sum stays whole
            first, *rest = labels
            labels = (first if rest else OTHER, *(OTHER for _ in rest))
        return table.rows.setdefault(labels, table.make())


class Exposition(Collector):
    """The Prometheus text of one `Metrics` and of the process itself."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[Family]:
        """Called by prometheus_client at each scrape."""
        return self._metrics.families()

    def text(self) -> bytes:
        """The exposition, text format 0.0.4."""
        return generate_latest(self._registry)


def _check(metric: Metric, kind: Kind, labels: Labels) -> None:
    if metric.kind is not kind:
        raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")
    if len(labels) != len(metric.labels):
        raise ValueError(f"{metric.name} takes the labels {metric.labels}, not {labels}")


def _family(metric: Metric, samples: Samples) -> Family:
    family: CounterMetricFamily | GaugeMetricFamily
    if metric.kind is Kind.COUNTER:
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram_family(metric: Metric, table: _Table[Histogram]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    edges = [*(f"{bound:g}" for bound in metric.buckets), "+Inf"]
    for labels, row in table.rows.items():
        buckets = list(zip(edges, accumulate(row.counts), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=row.total)
    return family
