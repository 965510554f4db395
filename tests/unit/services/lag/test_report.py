"""What `lag` shows: series by topic, few by partition, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from mirrorfleet.lagging.board import Board
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.runtime.metrics import MAX_SERIES, Exposition, Metrics
from services.lag import report, settings
from tests.fakes.clock import HandClock
from tests.unit.lagging.making import SLOT, entry, hear, said, snapshot
from tests.unit.records.making import LINK

NOW_MS = 20_000


def board(*positions: int, seen: bool = True) -> Board:
    """Partitions of one topic at these positions; the source's end went from 0 to 1,000 in 10 s."""
    made = Board(Limits(), sample_ms=5_000)
    made.want([entry(partition) for partition in range(len(positions))], 0)
    made.hold(SLOT, (), 0)
    words = [said(at, partition=number, moved_ms=NOW_MS) for number, at in enumerate(positions)]
    for second in range(11):
        for lag in made if seen else ():
            lag.end_seen(second * 100, 10_000 + second * 1_000)
    hear(made, snapshot(NOW_MS, *words), NOW_MS)
    made.look(SLOT, NOW_MS)
    return made


def scraped(board: Board) -> list[str]:
    metrics = Metrics()
    views = [report.LinkView(LINK, looked_at=97.0)]
    report.Gauges(board, views, HandClock(wall_ms=NOW_MS)).register(metrics)
    lines = Exposition(metrics).text().decode().splitlines()
    return [line for line in lines if line.startswith("mirrorfleet_")]


def test_topics_have_their_worst_partitions_time_and_all_partitions_records() -> None:
    lines = scraped(board(1_000, 700, 400))

    assert 'mirrorfleet_lag_seconds{link="east->west",topic="orders"} 5.995' in lines
    assert 'mirrorfleet_lag_records{link="east->west",topic="orders"} 900.0' in lines
    assert 'mirrorfleet_lag_partitions{link="east->west",verdict="ok"} 3.0' in lines


def test_what_an_operator_has_paused_is_no_partition_that_stands() -> None:
    """Its alert would call somebody for as long as the pause lasts."""
    made = board(1_000, 700)
    of_topic = '{link="east->west",topic="orders"}'
    for lag in made:
        if lag.entry.identity.partition == 1:
            lag.entry = replace(lag.entry, state=CatalogState.PAUSED)
    made.look(SLOT, NOW_MS)

    lines = scraped(made)

    verdicts = [line for line in lines if line.startswith("mirrorfleet_lag_partitions{")]
    assert verdicts == ['mirrorfleet_lag_partitions{link="east->west",verdict="ok"} 1.0']
    assert f"mirrorfleet_lag_seconds{of_topic} 0.0" in lines


def test_of_two_instances_that_share_a_topic_the_one_that_does_not_see_its_part_says_so() -> None:
    """Who adds up what both tell would take the part of one for all of it."""
    seeing, blind = scraped(board(700)), scraped(board(10, seen=False))
    of_topic = '{link="east->west",topic="orders"}'

    assert f"mirrorfleet_lag_records{of_topic} 300.0" in seeing
    assert f"mirrorfleet_lag_records_unknown{of_topic} 0.0" in seeing
    assert f"mirrorfleet_lag_seconds_unknown{of_topic} 0.0" in seeing
    assert f"mirrorfleet_lag_records_unknown{of_topic} 1.0" in blind
    assert f"mirrorfleet_lag_seconds_unknown{of_topic} 1.0" in blind


def many(topics: int, short: int = -1) -> Board:
    """Topics of one partition: all are copied but the last, which is 10 s late and catches up.
    One is `short`: kept for a quarter of an hour.
    """
    made = Board(Limits(), sample_ms=5_000)
    kept_ms = [900_000 if at == short else 3_600_000 for at in range(topics)]
    made.want([entry(at, topic=f"t{at}", retention_ms=ms) for at, ms in enumerate(kept_ms)], 0)
    made.hold(SLOT, (), 0)
    for lag in made:
        for end, at_ms in ((0, 9_000), (100, 10_000), (100, NOW_MS)):
            lag.end_seen(end, at_ms)
    for last, at_ms in ((0, NOW_MS - 1_000), (20, NOW_MS)):
        positions = [*[100] * (topics - 1), last]
        words = [said(at, partition=number) for number, at in enumerate(positions)]
        hear(made, snapshot(at_ms, *words), at_ms)
    made.look(SLOT, NOW_MS)
    return made


@pytest.mark.parametrize(
    "gauge", ["lag_seconds", "lag_records", "lag_eta_seconds", "lag_headroom_seconds"]
)
def test_of_too_many_topics_the_worst_have_series_and_the_others_are_counted(gauge: str) -> None:
    topics = MAX_SERIES + 3
    metrics = Metrics()
    report.Gauges(many(topics), [], HandClock(wall_ms=NOW_MS)).register(metrics)
    for _ in range(2):  # what is counted at a scrape shows at the next
        lines = Exposition(metrics).text().decode().splitlines()

    shown = [line for line in lines if line.startswith(f"mirrorfleet_{gauge}{{")]
    assert len(shown) == MAX_SERIES
    assert [line for line in shown if f'topic="t{topics - 1}"' in line] == shown[:1]
    assert f'mirrorfleet_metric_series_refused_total{{name="mirrorfleet_{gauge}"}} 3.0' in lines


def test_of_too_many_topics_those_that_have_one_number_have_all() -> None:
    """`MirrorfleetRetentionNear` leaves out what is live: without its lag nothing would be."""
    metrics = Metrics()
    made = many(MAX_SERIES + 3, short=MAX_SERIES + 1)
    report.Gauges(made, [], HandClock(wall_ms=NOW_MS)).register(metrics)
    lines = Exposition(metrics).text().decode().splitlines()

    room, late = (
        {line.partition("{")[2].partition("}")[0] for line in lines if line.startswith(name)}
        for name in ("mirrorfleet_lag_headroom_seconds{", "mirrorfleet_lag_seconds{")
    )
    assert room == late
    assert f'link="east->west",topic="t{MAX_SERIES + 1}"' in room


def test_only_partitions_that_are_not_fine_have_series_of_their_own_and_not_many() -> None:
    fine = scraped(board(1_000, 900))
    assert [line for line in fine if "partition=" in line] == []

    bad = board(*[5] * 300)
    for lag in bad:
        lag.reported(said(5, partition=lag.entry.identity.partition, fault="why"), NOW_MS, NOW_MS)
    bad.look(SLOT, NOW_MS)
    assert len([one for one in scraped(bad) if "partition_lag_seconds{" in one]) == report.WORST


def test_what_is_not_known_is_absent_and_the_age_of_the_look_tells() -> None:
    lines = scraped(board(10, seen=False))

    assert [line for line in lines if line.startswith("mirrorfleet_lag_seconds{")] == []
    assert [line for line in lines if line.startswith("mirrorfleet_lag_records{")] == []
    assert 'mirrorfleet_seconds_since_source_ends{link="east->west"} 3.0' in lines
    assert 'mirrorfleet_seconds_since_progress_heard{link="east->west"} 0.0' in lines


def test_status_counts_verdicts_and_shows_what_is_not_fine() -> None:
    watched = board(1_000, 5)
    list(watched)[1].reported(said(5, partition=1, fault="too large"), NOW_MS, NOW_MS)
    watched.look(SLOT, NOW_MS)

    found = report.status(
        watched, [report.LinkView(LINK, looked_at=97.0)], HandClock(wall_ms=NOW_MS)
    )

    assert found["links"] == [
        {
            "link": "east->west",
            "verdicts": {"faulted": 1, "ok": 1},
            "propagation_ms": None,
            "progress_heard_ms_ago": 0,
            "ends_seen_s_ago": 3.0,
            "trouble": "",
            "ends_refused": {},
        }
    ]
    assert [row["partition"] for row in found["worst"]] == [1]  # type: ignore[attr-defined]  # rows are JSON-ready objects


async def test_lag_is_asked_for_by_topic_with_the_worst_first_and_bad_questions_are_refused() -> (
    None
):
    transport = httpx.ASGITransport(report.new_app(board(1_000, 400)))
    async with httpx.AsyncClient(transport=transport, base_url="http://lag") as client:
        rows = (await client.get("/lag", params={"topic": "orders"})).json()
        nobody = (await client.get("/lag", params={"topic": "<script>"})).json()
        refused = await client.get("/lag", params={"limit": "0"})

    assert [(row["partition"], row["time_lag_ms"]) for row in rows] == [(1, 5_995), (0, 0)]
    assert (nobody, refused.status_code) == ([], 422)


def test_settings_give_the_rules_their_limits_in_milliseconds() -> None:
    limits = settings.parse({"allowed_s": 2.5, "ends_s": 4}).limits

    assert (limits.allowed_ms, limits.fresh_ms, limits.silent_ms) == (2_500, 12_000, 10_000)
