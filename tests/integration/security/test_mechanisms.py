"""Whole fleets, under load, from mutual TLS to SASL_SSL: one for each mechanism, all at once.

The target sees everything a fleet does: transactions, admin requests, and the reads of aiokafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from mirrorfleet.config.cluster_settings import Mechanism
from services.local.region import Region
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.security.kit import access_as, section
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At, ClusterAccess, ReadingError, ends_of
from tests.judge.render import render
from tests.judge.verdict import Demands, Verdict

RATE = 1_000
LEAST_RECORDS = 200
"""Of each mechanism."""
EXIT_S = 10.0
TOPICS = {mechanism: f"by-{mechanism.lower()}" for mechanism in Mechanism}


class Fleets(NamedTuple):
    """Both ends, and the workers."""

    source: ClusterAccess
    target: ClusterAccess
    mirrors: dict[Mechanism, ServiceProcess]


@pytest.fixture(scope="module")
def fleets(
    sasl: Region, mutual: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleets]:
    """With traffic that was copied while it was made."""
    mirrors = {}
    source, target = access_as(mutual), access_as(sasl)
    with ExitStack() as stack:
        for mechanism, topic in TOPICS.items():
            directory = tmp_path_factory.mktemp(topic)
            estate = write_estate(
                directory,
                source=address(mutual),
                target=address(sasl),
                fleet=topic,
                topics=[topic],
                slots=2,
                security={
                    "east": section(mutual, "admin"),
                    "west": section(sasl, "admin", mechanism),
                },
            )
            _, mirrors[mechanism] = (
                stack.enter_context(service(name, estate=estate, target="west", logs=directory))
                for name in ("sync", "mirror")
            )
        more = [f"--property={key}={value}" for key, value in source.properties.items()]
        topics = [f"{topic}:2" for topic in TOPICS.values()]
        with traffic(source.bootstrap, topics, rate=RATE, more=more) as load:
            wait_until(
                lambda: all(
                    ends_of(target, [At(f"east.{topic}", 0)])[At(f"east.{topic}", 0)].committed
                    for topic in TOPICS.values()
                ),
                deadline_s=60,
                what="every fleet to copy",
                ignoring=(ReadingError,),
            )
            load.stop()
            yield Fleets(source, target, mirrors)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_fleet_copies_exactly_and_leaves_in_time(fleets: Fleets, mechanism: Mechanism) -> None:
    topic = TOPICS[mechanism]

    report = judge(
        Copy(source=fleets.source, target=fleets.target, pairs=[Pair(topic, f"east.{topic}")]),
        demands=Demands(records=LEAST_RECORDS),
    )
    fleets.mirrors[mechanism].terminate()
    code = fleets.mirrors[mechanism].wait_exit(EXIT_S)

    assert report.verdict is Verdict.PASS, render(report)
    assert code == 0
