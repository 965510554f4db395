from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.bench.latency import Delays
from tests.bench.measure import Costs, Drain, steady
from tests.bench.rows import Figures, Row, comparison, figures, is_ours, median, save, table
from tests.bench.systems import FLEET, PEERS, fleets
from tests.bench.workloads import Workload

WORKLOAD = Workload(name="1k-plain", partitions=8, record_bytes=1_000, megabytes=4_000)


def row(system: str, delivery: str, **measured: float | None) -> Row:
    found = Row(workload="1k-plain", delivery=delivery, system=system, kafka="4.3.0")
    for name, value in measured.items():
        found = replace(found, **{name: value})  # type: ignore[arg-type]  # figures only
    return found


def test_a_drain_in_the_units_of_the_table() -> None:
    drained = Drain(
        seconds=10.0,
        records=2_000_000,
        cpu_s=3.0,
        source_cpu_s=4.0,
        target_cpu_s=8.0,
        peak_rss_mb=120.0,
    )

    assert figures(WORKLOAD, drained) == {
        "mb_s": 200.0,
        "records_s": 200_000.0,
        "cpu_s_per_gb": 1.5,
        "records_per_core_s": 2_000_000 / 3,
        "src_broker_cpu_s_per_gb": 2.0,
        "dst_broker_cpu_s_per_gb": 4.0,
        "rss_mb": 120.0,
    }


def test_a_steady_load_counts_with_what_was_received_and_not_with_what_was_offered() -> None:
    before = Costs(copier=1.0, source=2.0, target=3.0)
    after = Costs(copier=6.0, source=12.0, target=23.0)
    found = Delays(
        expected=900_000,
        received=250_000,
        seconds=25.0,
        stall_s=None,
        p50_ms=None,
        p99_ms=None,
        p999_ms=None,
    )

    measured = figures(WORKLOAD, steady(found, before, after, 120.0))

    assert (measured["mb_s"], measured["records_per_core_s"]) == (10.0, 50_000.0)
    brokers = (measured["src_broker_cpu_s_per_gb"], measured["dst_broker_cpu_s_per_gb"])
    assert (measured["cpu_s_per_gb"], *brokers) == (20.0, 40.0, 80.0)


def test_the_median_is_taken_figure_by_figure() -> None:
    rounds: list[Figures] = [
        {"mb_s": 1.0, "rss_mb": 9.0},
        {"mb_s": 3.0, "rss_mb": 7.0},
        {"mb_s": 2.0, "rss_mb": 8},
    ]

    assert median(rounds) == {"mb_s": 2.0, "rss_mb": 8.0}


def test_a_round_in_which_too_little_came_was_later_than_all_others() -> None:
    rounds: list[Figures] = [{"p99_ms": 20.0}, {"p99_ms": None}, {"p99_ms": 10.0}]

    assert median(rounds) == {"p99_ms": 20.0}
    assert median(rounds[:2]) == {"p99_ms": None}


def test_the_fleet_is_compared_with_the_best_peer_of_each_delivery() -> None:
    rows = [
        row("fleet", "exactly-once", cpu_s_per_gb=1.5, mb_s=300.0),
        row("mm2", "exactly-once", cpu_s_per_gb=18.0, mb_s=50.0),
        row("mm2-tuned", "exactly-once", cpu_s_per_gb=9.0, mb_s=150.0),
        row("mm2", "at-least-once", cpu_s_per_gb=12.0, mb_s=100.0),
    ]

    assert comparison(rows) == [
        "1k-plain, MM2 exactly-once: 6.00 times less CPU, 2.00 times the MB/s",
        "1k-plain, MM2 at-least-once: 8.00 times less CPU, 3.00 times the MB/s",
    ]


def test_a_latency_is_compared_as_a_part_of_the_best_one() -> None:
    rows = [
        row("fleet", "exactly-once", p99_ms=50.0),
        row("mm2", "exactly-once", p99_ms=1_600.0),
        row("mm2-tuned", "exactly-once", p99_ms=200.0),
    ]

    assert comparison(rows) == ["1k-plain, MM2 exactly-once: 0.25 times MM2's best p99"]


def test_who_was_too_far_behind_for_a_latency_is_no_best_one() -> None:
    behind = {"p50_ms": None, "p99_ms": None, "p999_ms": None}
    fleet, peer = row("fleet", "exactly-once", p99_ms=50.0), row("mm2", "exactly-once", **behind)
    tuned = row("mm2-tuned", "exactly-once", p99_ms=200.0)

    assert comparison([fleet, peer, tuned]) == [
        "1k-plain, MM2 exactly-once: 0.25 times MM2's best p99"
    ]
    assert comparison([fleet, peer]) == []
    assert comparison([row("fleet", "exactly-once", **behind), tuned]) == []


def test_what_does_not_apply_is_null_in_the_file_and_a_dash_in_the_table(tmp_path: Path) -> None:
    file = tmp_path / "bench" / "latest.json"
    rows = [row("fleet", "exactly-once", mb_s=1234.5)]

    save(rows, file)

    (written,) = json.loads(file.read_text())
    assert written["mb_s"] == 1234.5
    assert written["p99_ms"] is None
    assert written["stall_s"] is None
    assert table(rows).splitlines()[1].split() == [
        *("1k-plain", "exactly-once", "fleet", "1,234"),
        *["-"] * 10,
    ]


def test_a_fleet_of_several_workers_is_ours_and_nobodys_peer() -> None:
    several = fleets([1, 2, 4])

    assert [(each.name, each.workers, each.slots) for each in several] == [
        ("fleet", 1, 4),
        ("fleet x2", 2, 4),
        ("fleet x4", 4, 4),
    ]
    assert all(is_ours(each.name) for each in several)
    assert not any(is_ours(peer.name) for peer in PEERS)
    rows = [row(each.name, each.delivery, mb_s=100.0) for each in several]
    assert comparison([*rows, row("mm2", "at-least-once", mb_s=50.0)]) == [
        "1k-plain, MM2 at-least-once: 2.00 times the MB/s"
    ]


def test_one_worker_is_the_fleet_as_it_is_measured_alone() -> None:
    assert fleets([1]) == [FLEET]
