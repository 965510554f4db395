"""A right that is missing: said with principal, resource and operation; others flow; once it is
granted the rest follows without a restart.

One fleet, from SASL_SSL with SCRAM to mutual TLS, runs under all tests. sync gives the least loaded
slot in the order of names, so what is denied is in slots of its own: a 0 to 4, b 0, c 1, e 2, d 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mirrorfleet.kafka.acls import AclBinding
from mirrorfleet.policy.acls import Operation, Resource, Service
from services.local.region import Region
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.security.kit import (
    access_as,
    binding,
    create_topics,
    give,
    needed,
    produce,
    section,
    take_back,
)
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At, ClusterAccess, ReadingError, ends_of
from tests.judge.render import render
from tests.judge.verdict import Verdict

FLEET = "denied"
TOPICS = {"a-flows": 5, "b-unread": 1, "c-unwritten": 1, "d-uncreated": 1, "e-revoked": 1}
SLOTS = 5
DENIED_SLOT = 4
RECORDS = 50
SAID_S = 20.0
RECOVERS_S = 15.0


@dataclass(frozen=True)
class Fleet:
    """What runs, and who may do what in it."""

    source: ClusterAccess
    target: ClusterAccess
    sync: ServiceProcess
    mirror: ServiceProcess
    regions: dict[str, Region]
    """By alias."""
    estates: dict[Service, Path]

    def right(self, who: Service, name: str, operation: Operation) -> tuple[Region, AclBinding]:
        """The ACL for a printed grant, and the region that it is for."""
        if name.startswith("mirrorfleet."):
            return self.regions["west"], id_right(self.estates[who], DENIED_SLOT)
        (grant,) = (
            one
            for one in needed(self.estates[who], who)
            if (one.name, one.operation) == (name, operation)
        )
        return self.regions[grant.cluster], binding(grant, who.value)

    def process(self, who: Service) -> ServiceProcess:
        return self.sync if who is Service.SYNC else self.mirror

    def certificate(self, who: Service) -> str:
        """How a service calls itself at the target."""
        return f"the owner of certificate {self.regions['west'].tls / who.value}.pem"

    def says(self, who: Service, text: str) -> bool:
        return text in json.dumps(self.process(who).status(), ensure_ascii=False)

    def await_said(self, who: Service, text: str) -> None:
        wait_until(
            lambda: self.says(who, text),
            deadline_s=SAID_S,
            what=f"/status: {text}",
            ignoring=(httpx.TransportError,),
        )
        assert text in self.process(who).text()

    def end(self, topic: str, partition: int) -> int:
        at = At(f"east.{topic}", partition)
        return ends_of(self.target, [at])[at].committed

    def await_copied(self, topic: str, partition: int, offset: int) -> None:
        wait_until(
            lambda: self.end(topic, partition) > offset,
            deadline_s=RECOVERS_S,
            what=f"{topic}-{partition} beyond {offset} on the target",
            ignoring=(ReadingError,),
        )

    def check_neighbours_flow(self) -> None:
        before = [self.end("a-flows", number) for number in range(DENIED_SLOT)]
        produce(self.source, {"a-flows": DENIED_SLOT}, 5)
        for number, offset in enumerate(before):
            self.await_copied("a-flows", number, offset)

    def check_exact(self, topic: str) -> None:
        pair = Pair(topic, f"east.{topic}")
        report = judge(Copy(source=self.source, target=self.target, pairs=[pair]))
        assert report.verdict is Verdict.PASS, render(report)


def id_right(estate: Path, slot: int) -> AclBinding:
    """The printed grant on transactional ids, for one slot only."""
    (prefixed,) = (
        one for one in needed(estate, Service.MIRROR) if one.resource is Resource.TRANSACTIONAL_ID
    )
    return binding(prefixed, "mirror", name=f"{prefixed.name}east.{slot}")


WITHHELD = {
    (Service.MIRROR, "b-unread", Operation.READ),
    (Service.MIRROR, "east.c-unwritten", Operation.WRITE),
    (Service.SYNC, "east.d-uncreated", Operation.CREATE),
    (Service.MIRROR, f"mirrorfleet.{FLEET}.", Operation.WRITE),
}


@pytest.fixture(scope="module")
def fleet(
    sasl: Region, mutual: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("denied")
    regions = {"east": sasl, "west": mutual}
    estates = {}
    for user in (Service.SYNC, Service.MIRROR):
        estates[user] = write_estate(
            directory / user,
            source=address(sasl),
            target=address(mutual),
            fleet=FLEET,
            topics=list(TOPICS),
            slots=SLOTS,
            services={"sync": {"retry_longest_s": 4}},
            security={alias: section(region, user.value) for alias, region in regions.items()},
        )
        for alias, region in regions.items():
            wanted = [one for one in needed(estates[user], user) if one.cluster == alias]
            allowed = [one for one in wanted if (user, one.name, one.operation) not in WITHHELD]
            give(region, [binding(one, user.value) for one in allowed])
    give(mutual, [id_right(estates[Service.MIRROR], slot) for slot in range(DENIED_SLOT)])
    source = access_as(sasl)
    create_topics(source, TOPICS)
    produce(source, TOPICS, RECORDS)
    with ExitStack() as stack:
        sync, mirror = (
            stack.enter_context(
                service(who.value, estate=estates[who], target="west", logs=directory)
            )
            for who in (Service.SYNC, Service.MIRROR)
        )
        mirror.wait_ready(60)
        yield Fleet(source, access_as(mutual), sync, mirror, regions, estates)


@dataclass(frozen=True)
class Case:
    """A right that a service lacks, what it says then, and the partition that waits for it."""

    who: Service
    name: str
    operation: Operation
    topic: str
    partition: int
    said: Callable[[Fleet], str]


MISSING = {
    "source READ": Case(
        Service.MIRROR,
        "b-unread",
        Operation.READ,
        "b-unread",
        0,
        lambda _: (
            "source-denied before the first record: User:mirror may not READ Topic:b-unread on east"
        ),
    ),
    "target WRITE": Case(
        Service.MIRROR,
        "east.c-unwritten",
        Operation.WRITE,
        "c-unwritten",
        0,
        lambda fleet: (
            f"target-denied at source offset 0: {fleet.certificate(Service.MIRROR)}"
            " may not WRITE Topic:east.c-unwritten on west"
        ),
    ),
    "target CREATE": Case(
        Service.SYNC,
        "east.d-uncreated",
        Operation.CREATE,
        "d-uncreated",
        0,
        lambda fleet: (
            f"{fleet.certificate(Service.SYNC)} may not CREATE Topic:east.d-uncreated on west"
        ),
    ),
    "transactional id": Case(
        Service.MIRROR,
        "mirrorfleet.",
        Operation.WRITE,
        "a-flows",
        DENIED_SLOT,
        lambda fleet: (
            f"{fleet.certificate(Service.MIRROR)} may not WRITE"
            f" TransactionalId:mirrorfleet.{FLEET}.east.{DENIED_SLOT} on west"
        ),
    ),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", MISSING.values(), ids=MISSING)
def test_a_missing_right_is_named_others_flow_and_it_recovers_once_granted(
    fleet: Fleet, case: Case
) -> None:
    said = case.said(fleet)
    fleet.await_said(case.who, said)
    fleet.check_neighbours_flow()
    assert fleet.says(case.who, said)

    region, right = fleet.right(case.who, case.name, case.operation)
    give(region, [right])
    fleet.await_copied(case.topic, case.partition, RECORDS - 1)

    wait_until(
        lambda: not fleet.says(case.who, said),
        deadline_s=RECOVERS_S,
        what="it to be said no more",
        ignoring=(httpx.TransportError,),
    )
    if case.topic != "a-flows":
        fleet.check_exact(case.topic)


REVOKED = {
    "source READ": (
        "e-revoked",
        Operation.READ,
        lambda fleet: "User:mirror may not READ Topic:e-revoked on east",
    ),
    "target WRITE": (
        "east.e-revoked",
        Operation.WRITE,
        lambda fleet: (
            f"{fleet.certificate(Service.MIRROR)} may not WRITE Topic:east.e-revoked on west"
        ),
    ),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("name", "operation", "said"), REVOKED.values(), ids=REVOKED)
def test_a_right_that_is_taken_back_stops_one_partition_until_it_is_given_again(
    fleet: Fleet, name: str, operation: Operation, said: Callable[[Fleet], str]
) -> None:
    fleet.await_copied("e-revoked", 0, RECORDS - 1)
    region, right = fleet.right(Service.MIRROR, name, operation)
    take_back(region, [right])

    def refused() -> bool:
        produce(fleet.source, {"e-revoked": 1}, 1)
        return fleet.says(Service.MIRROR, said(fleet))

    wait_until(refused, deadline_s=SAID_S, what="a record that is not copied any more")
    assert said(fleet) in fleet.mirror.text()
    fleet.check_neighbours_flow()  # what was on its way has ended by then
    before = fleet.end("e-revoked", 0)
    produce(fleet.source, {"e-revoked": 1}, RECORDS)
    fleet.check_neighbours_flow()
    assert fleet.end("e-revoked", 0) == before

    give(region, [right])
    fleet.await_copied("e-revoked", 0, before + RECORDS - 1)
    fleet.check_exact("e-revoked")


@pytest.mark.timeout(180)
def test_a_catalog_that_may_not_be_read_any_more_is_told_and_ends_nothing(fleet: Fleet) -> None:
    name = f"__mirrorfleet.{FLEET}.catalog"
    said = f"{fleet.certificate(Service.MIRROR)} may not READ Topic:{name} on west"
    fleet.await_copied("a-flows", 0, RECORDS - 1)
    region, right = fleet.right(Service.MIRROR, name, Operation.READ)
    take_back(region, [right])
    try:
        wait_until(
            lambda: said in fleet.mirror.get("/readyz").text,
            deadline_s=SAID_S,
            what=f"/readyz {said}",
        )
        fleet.check_neighbours_flow()
    finally:
        give(region, [right])
    wait_until(
        lambda: said not in fleet.mirror.get("/readyz").text,
        deadline_s=RECOVERS_S,
        what="the catalog to be read again",
    )
