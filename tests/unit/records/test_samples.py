"""Samples of lag: what is on the wire, round trips, what is skipped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirrorfleet.core.ids import ClusterAlias, SlotNumber, SourceOffset
from mirrorfleet.records import samples
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.samples import Sample, Verdict

SAMPLE = Sample(
    time_ms=1_700_000_000_000,
    source=ClusterAlias("east"),
    target=ClusterAlias("west"),
    topic="orders.v1",
    partition=3,
    target_topic="east.orders.v1",
    slot=SlotNumber(7),
    state="live",
    lag_records=12,
    time_lag_ms=340,
    propagation_ms=22,
    backlog_age_ms=None,
    eta_ms=1500,
    headroom_ms=86_400_000,
    rate_records_s=10.123,
    rate_bytes_s=2048.5,
    source_end=112,
    next_source=SourceOffset(100),
    verdict=Verdict.CATCHING_UP,
    rule="behind by 340ms, and less than before",
)


def test_a_sample_is_flat_json_under_link_topic_and_partition() -> None:
    key, value = samples.encode(SAMPLE)

    assert key == b"east->west/orders.v1/3"
    assert json.loads(value) == {
        "v": 1,
        "time_ms": 1_700_000_000_000,
        "source": "east",
        "target": "west",
        "topic": "orders.v1",
        "partition": 3,
        "target_topic": "east.orders.v1",
        "slot": 7,
        "state": "live",
        "lag_records": 12,
        "time_lag_ms": 340,
        "propagation_ms": 22,
        "backlog_age_ms": None,
        "eta_ms": 1500,
        "headroom_ms": 86_400_000,
        "rate_records_s": 10.123,
        "rate_bytes_s": 2048.5,
        "source_end": 112,
        "next_source": 100,
        "verdict": "catching-up",
        "rule": "behind by 340ms, and less than before",
        "age_ms": None,
    }


def test_a_sample_comes_back_whole() -> None:
    assert samples.decode(*samples.encode(SAMPLE)) == SAMPLE


def test_a_sample_tells_how_old_it_was_when_it_was_written() -> None:
    waited = samples.decode(*samples.encode(SAMPLE, SAMPLE.time_ms + 9_000))
    assert waited == replace(SAMPLE, age_ms=9_000)
    assert samples.decode(*samples.encode(SAMPLE, SAMPLE.time_ms - 1)) == replace(SAMPLE, age_ms=0)
    heard = samples.decode(*samples.encode(SAMPLE, SAMPLE.time_ms + 9_000), heard_ms=10_000)
    assert heard == replace(SAMPLE, time_ms=1_000, age_ms=9_000)


def test_a_sample_of_an_older_build_tells_no_age() -> None:
    key, value = samples.encode(SAMPLE)
    older = {name: held for name, held in json.loads(value).items() if name != "age_ms"}
    assert samples.decode(key, json.dumps(older).encode()) == SAMPLE


def test_a_sample_is_of_when_it_was_heard_by_who_says_so() -> None:
    assert samples.decode(*samples.encode(SAMPLE), heard_ms=7) == replace(SAMPLE, time_ms=7)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"verdict": "splendid"},
        {"time_lag_ms": "much"},
        {"rate_records_s": float("nan")},
        {"rate_bytes_s": True},
        {"topic": None},
    ],
)
def test_what_cannot_be_read_is_skipped(change: dict[str, object]) -> None:
    key, value = samples.encode(SAMPLE)

    assert isinstance(
        samples.decode(key, json.dumps({**json.loads(value), **change}).encode()), Skipped
    )


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"k", None), (b"k", b"[1]"), (b"k", b"\xff")]
)
def test_what_is_no_sample_is_skipped(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(samples.decode(key, value), Skipped)


def test_the_worst_verdict_has_the_highest_rank() -> None:
    assert max((Verdict.OK, Verdict.STUCK, Verdict.BEHIND), key=lambda v: v.rank) is Verdict.STUCK
    assert [verdict for verdict in Verdict if verdict.fine] == [Verdict.IDLE, Verdict.OK]
