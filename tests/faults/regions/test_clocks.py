"""Brokers whose clocks are minutes apart, and are set forward and back under load."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import KafkaException

from tests.faultkit.clocks import movable, step
from tests.faultkit.far import far_pair
from tests.faultkit.process import service
from tests.faultkit.waiting import wait_until
from tests.faults.regions.conftest import SPECS
from tests.faults.regions.drill import FLOWING_S, PARTITIONS, RATE, Drill, drill, settled
from tests.integration.mirror.making import Made, create_on, put, seen
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from services.local.broker import Broker
    from services.local.region import Region
    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess

AHEAD_S: Final = 300.0
"""More than the time-out of any transaction, and less than the hour by which brokers of 4.x let a
record be ahead of their own clock."""
NEAR_S: Final = 10.0
"""As exactly as a clock is read through a busy broker."""
SHOWS_S: Final = 60.0
RECORDS_S: Final = min(RATE, 5_000)
"""At 22,000 a copy fell a second behind in every two: brokers ask for the time all the while, and
libfaketime makes each answer dearer."""
LAG_MS: Final = 60_000
"""A fifth of what the clocks are wrong by, and more than a partition is behind in a drill."""

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.apart]


@contextmanager
def movable_pair() -> Iterator[dict[str, FarRegion]]:
    """Three brokers a side, each with a clock of its own."""
    with ExitStack() as stack:
        with movable():
            pair = stack.enter_context(far_pair(*SPECS))
        yield pair


def probe(broker: Broker) -> str:
    """The topic to which a broker gives its time."""
    return f"clock-{broker.node_id}"


def make_probes(region: Region) -> None:
    """Before any clock moves: a question that is on its way then may be given up."""
    own: dict[str, str | int] = {"message_timestamp_type": "LogAppendTime"}
    for broker in region.brokers:
        create_on(region, probe(broker), [broker.node_id], min_insync_replicas=1, **own)


def ahead_s(region: Region, broker: Broker) -> float:
    """How far a broker's clock is ahead of ours, by the time that it gives to a record."""
    put(region, probe(broker), [Made(b"what time is it?")])
    now_s = time.time()
    return seen(region, probe(broker))[-1].timestamp / 1000 - now_s


def stepped(it: Drill, side: str, brokers: Sequence[Broker], by_s: float) -> None:
    """Set clocks of a side; each bit when the broker gives that time to records."""
    region = it.pair[side].region
    with it.fault(f"{side}: clocks of {len(brokers)} brokers {by_s:+.0f} s") as fault:
        for broker in brokers:
            step(broker, by_s)
        wait_until(
            lambda: all(abs(ahead_s(region, broker) - by_s) < NEAR_S for broker in brokers),
            deadline_s=SHOWS_S,
            what="the new time in records",
            ignoring=(KafkaException, AssertionError),
        )
        fault.bit(True, "by the time that each gives to a record")


def lags(lag: ServiceProcess, topic: str) -> list[object]:
    """The time lag in ms of each partition, as `lag` tells it."""
    return [row["time_lag_ms"] for row in lag.get(f"/lag?topic={topic}").json()]


def told_rightly(found: Sequence[object]) -> bool:
    """Whether every partition's lag is known, and of a size that nothing but a clock forbids."""
    return len(found) == PARTITIONS and all(
        isinstance(ms, int) and 0 <= ms < LAG_MS for ms in found
    )


def test_brokers_whose_clocks_are_minutes_apart_and_jump_both_ways_cost_nothing(
    tmp_path: Path,
) -> None:
    with movable_pair() as pair, drill("clocks", pair, tmp_path) as it:
        for far in pair.values():
            make_probes(far.region)
        it.start_load(RECORDS_S)
        mirror = it.mirror()
        lag = it.stack.enter_context(
            service("lag", estate=it.estate, target="west", logs=tmp_path / "logs")
        )
        lag.wait_ready(FLOWING_S)
        settled(it, mirror)
        east, west = (pair[side].region.brokers for side in ("east", "west"))
        for side, brokers, by_s in (
            ("east", east, AHEAD_S),
            ("east", east[:1], -AHEAD_S),  # ten minutes behind its neighbours
            ("east", east, -AHEAD_S),
            ("west", west, -AHEAD_S),
            ("west", west[:1], AHEAD_S),
            ("west", west, 0.0),
        ):
            stepped(it, side, brokers, by_s)
            settled(it, mirror)
            wait_until(
                lambda: told_rightly(lags(lag, it.copied("east")[0])),
                deadline_s=SHOWS_S,
                what="lags without the clocks in them",
            )
        report = it.judged(patience_s=90)
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    # stalls are measured by the times of commits, which are those of the target's brokers
    it.check_recovered(faults=[fault for fault in it.faults if fault.name.startswith("east")])
