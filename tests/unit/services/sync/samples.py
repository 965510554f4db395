"""A small world for the tests of `sync`: two clusters, a link, topics with readable ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, SlotNumber
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogPartition
from services.sync.book import CatalogBook
from services.sync.observed import SourceTopic, SourceView, TargetTopic, TargetView, TopicTerms
from services.sync.plan import LinkView, Plan, plan
from services.sync.rules import RuleTerms

LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
EAST = ClusterId("EAST-ID")
WEST = ClusterId("WEST-ID")
SOURCE_ID = UUID(int=1)
TARGET_ID = UUID(int=2)
OTHER_ID = UUID(int=9)
CLAIM = Claim(LINK, "all", "orders", "east.orders")
SLOTS = (SlotNumber(0), SlotNumber(1))


def a_flow(*patterns: str, naming: Naming = Naming.PREFIX, link: Link = LINK) -> Flow:
    topics, groups = NameFilter(patterns or (".*",)), NameFilter(())
    return Flow(link, (FlowRule("all", topics, groups, naming),), NameFilter(()))


def orders(
    partitions: int = 2, *, topic_id: UUID = SOURCE_ID, late: bool = False, **terms: object
) -> SourceTopic:
    configs = {name.replace("_", "."): str(value) for name, value in terms.items()}
    return SourceTopic(
        name="orders",
        topic_id=topic_id,
        partitions=partitions,
        replicas=3,
        created_late=late,
        terms=TopicTerms.of(configs),
    )


def copied(
    partitions: int = 2,
    *,
    topic_id: UUID = TARGET_ID,
    empty: bool | None = True,
    configs: Mapping[str, str] | None = None,
) -> TargetTopic:
    return TargetTopic(
        name="east.orders",
        topic_id=topic_id,
        partitions=partitions,
        empty=empty,
        configs={"compression.type": "producer", **(configs or {})},
    )


def a_source(*topics: SourceTopic, origins: Sequence[ClusterId] = ()) -> SourceView:
    return SourceView(
        cluster=EAST,
        topics={topic.name: topic for topic in topics},
        origins={"orders": tuple(origins)} if origins else {},
    )


def planned(
    source: SourceTopic | None,
    target: TargetTopic | None,
    *,
    entries: Sequence[CatalogPartition] = (),
    terms: RuleTerms | None = None,
    origins: Sequence[ClusterId] = (),
    claimed: bool = True,
    unreadable: Mapping[str, str] | None = None,
) -> Plan:
    book = CatalogBook()
    for entry in entries:
        book.learn(entry)
    seen = a_source(*([source] if source else []), origins=origins)
    view = LinkView(
        link=LINK,
        source=SourceView(
            cluster=EAST,
            topics=seen.topics,
            origins=seen.origins,
            unreadable=unreadable or {},
        ),
        target=TargetView(
            cluster=WEST,
            brokers=1,
            topics={target.name: target} if target else {},
            defaults={"compression.type": "producer"},
        ),
        claims=(CLAIM,) if source and claimed else (),
        terms={"all": terms or RuleTerms()},
        book=book,
        slots=SLOTS,
    )
    return plan(view)
