"""Counters are plain numbers; the scraper sees them as Prometheus families."""

from __future__ import annotations

import re

import pytest

from mirrorfleet.runtime import metric_names
from mirrorfleet.runtime.metric_names import Kind, Metric
from mirrorfleet.runtime.metrics import MAX_SERIES, Exposition, Metrics

ROWS = [each for each in vars(metric_names).values() if isinstance(each, Metric)]
HISTOGRAM = Metric("mirrorfleet_test_seconds", Kind.HISTOGRAM, "Test.", ("link",), (0.1, 1.0))


def exposed(metrics: Metrics) -> list[str]:
    lines = Exposition(metrics).text().decode().splitlines()
    return [line for line in lines if line.startswith("mirrorfleet_")]


def test_a_counter_is_shown_with_its_labels() -> None:
    metrics = Metrics()
    metrics.counter(metric_names.RECORDS, "east->west", "orders").value += 7
    metrics.counter(metric_names.RECORDS, "east->west", "orders").add(5)

    assert exposed(metrics) == ['mirrorfleet_records_total{link="east->west",topic="orders"} 12.0']


def test_a_weighted_observation_counts_for_all_its_records() -> None:
    metrics = Metrics()
    histogram = metrics.histogram(HISTOGRAM, "l")
    histogram.observe(0.1, weight=3)
    histogram.observe(0.5)
    histogram.observe(9.0, weight=2)

    assert exposed(metrics) == [
        'mirrorfleet_test_seconds_bucket{le="0.1",link="l"} 3.0',
        'mirrorfleet_test_seconds_bucket{le="1",link="l"} 4.0',
        'mirrorfleet_test_seconds_bucket{le="+Inf",link="l"} 6.0',
        'mirrorfleet_test_seconds_count{link="l"} 6.0',
        'mirrorfleet_test_seconds_sum{link="l"} 18.8',
    ]


def test_callbacks_are_asked_at_each_scrape_and_share_one_family() -> None:
    metrics = Metrics()
    age = [1.0]
    metrics.on_scrape(metric_names.SYNC_AGE, lambda: [(("a->b",), age[0])])
    metrics.on_scrape(metric_names.SYNC_AGE, lambda: [(("c->b",), 9.0)])
    age[0] = 4.0

    assert exposed(metrics) == [
        'mirrorfleet_seconds_since_sync{link="a->b"} 4.0',
        'mirrorfleet_seconds_since_sync{link="c->b"} 9.0',
    ]


def test_a_forgotten_series_is_shown_no_longer() -> None:
    metrics = Metrics()
    metrics.gauge(metric_names.CATALOG_ENTRIES, "a->b").set(2)
    metrics.gauge(metric_names.CATALOG_ENTRIES, "c->b").set(3)

    metrics.forget(metric_names.CATALOG_ENTRIES, "a->b")

    assert exposed(metrics) == ['mirrorfleet_catalog_entries{link="c->b"} 3.0']


def test_too_many_series_are_folded_into_one_and_counted() -> None:
    metrics = Metrics()
    for number in range(MAX_SERIES + 3):
        metrics.counter(metric_names.BYTES, "l", f"t{number}").add(1)

    lines = exposed(metrics)

    assert len([line for line in lines if line.startswith("mirrorfleet_bytes")]) == MAX_SERIES + 1
    assert 'mirrorfleet_bytes_total{link="l",topic="(other)"} 3.0' in lines
    assert 'mirrorfleet_metric_series_refused_total{name="mirrorfleet_bytes_total"} 3.0' in lines


def test_the_wrong_kind_or_number_of_labels_is_refused() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError, match="is a counter, not a gauge"):
        metrics.gauge(metric_names.RECORDS, "l", "t")
    with pytest.raises(ValueError, match="takes the labels"):
        metrics.counter(metric_names.RECORDS, "l")
    with pytest.raises(ValueError, match="observe it"):
        metrics.on_scrape(HISTOGRAM, list)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_name_of_the_table_says_its_unit(row: Metric) -> None:
    assert re.fullmatch(r"mirrorfleet_[a-z_]+", row.name)
    assert row.name.endswith("_total") == (row.kind is Kind.COUNTER)
    assert (row.buckets != ()) == (row.kind is Kind.HISTOGRAM)
    assert row.buckets == tuple(sorted(set(row.buckets)))


def test_every_name_of_the_table_is_there_once() -> None:
    assert len(ROWS) > 20
    assert len({row.name for row in ROWS}) == len(ROWS)
