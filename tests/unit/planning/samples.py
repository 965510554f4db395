"""A small world for the tests of `sync`: two clusters, a link, topics with readable ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    Link,
    PartitionIdentity,
    SlotNumber,
    TopicId,
)
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.observed import (
    SourceTopic,
    SourceView,
    TargetTopic,
    TargetView,
    TopicTerms,
)
from mirrorfleet.planning.plan import AclsView, LinkFacts, Plan, plan
from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.planning.topics import Held
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogAcl, CatalogLink, CatalogPartition
from mirrorfleet.records.commands import Command

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


def orders(partitions: int = 2, *, topic_id: UUID = SOURCE_ID, **terms: object) -> SourceTopic:
    """`terms` are the configs set on the topic, with '_' for '.'."""
    configs = {name.replace("_", "."): str(value) for name, value in terms.items()}
    return SourceTopic(
        name="orders",
        topic_id=topic_id,
        partitions=partitions,
        replicas=3,
        terms=TopicTerms.of(configs),
        overrides=configs,
    )


def copied(
    partitions: int = 2,
    *,
    topic_id: UUID = TARGET_ID,
    empty: bool | None = True,
    configs: Mapping[str, str] | None = None,
    unread: bool = False,
) -> TargetTopic:
    return TargetTopic(
        name="east.orders",
        topic_id=topic_id,
        partitions=partitions,
        empty=empty,
        configs={} if unread else {"compression.type": "producer", **(configs or {})},
        unread=unread,
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What else is so at the source."""

    origins: tuple[ClusterId, ...] = ()
    claimed: bool = True
    flow: Flow = field(default_factory=a_flow)
    link: CatalogLink | None = None
    """What the catalog says of the link."""
    refused: tuple[Held, ...] = ()
    unreadable: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    beside: Mapping[str, TopicId] = field(default_factory=dict)
    """More topics that are there and wait."""
    anew: Mapping[PartitionIdentity, Command] = field(default_factory=dict)
    acls: AclsView | None = None
    ours: tuple[AclBinding, ...] = ()
    """ACLs of the target that the catalog remembers."""
    defaults: Mapping[str, str] = field(default_factory=lambda: {"compression.type": "producer"})
    """What a topic gets at the target without being asked."""
    unaltered: frozenset[str] = frozenset()
    returned: frozenset[str] = frozenset()
    unwanted: frozenset[AclBinding] = frozenset()


PLAIN = Scene()
UNCLAIMED = Scene(claimed=False)


def _book(entries: Sequence[CatalogPartition], scene: Scene) -> CatalogBook:
    book = CatalogBook()
    for entry in entries:
        book.learn(entry)
    for binding in scene.ours:
        book.learn(CatalogAcl(EAST, binding))
    if scene.link is not None:
        book.learn(scene.link)
    return book


def planned(
    source: SourceTopic | None,
    target: TargetTopic | None,
    *,
    entries: Sequence[CatalogPartition] = (),
    terms: RuleTerms | None = None,
    scene: Scene = PLAIN,
) -> Plan:
    topics = {source.name: source} if source else {}
    view = LinkFacts(
        flow=scene.flow,
        source=SourceView(
            cluster=EAST,
            topics=topics,
            present=frozenset({*topics, *scene.waiting, *scene.beside}),
            wanted={**{one.name: one.topic_id for one in topics.values()}, **scene.beside},
            waiting=frozenset({*scene.waiting, *scene.beside}),
            origins={"orders": scene.origins},
            unreadable=dict.fromkeys(scene.unreadable, "TOPIC_AUTHORIZATION_FAILED"),
        ),
        target=TargetView(
            cluster=WEST,
            brokers=1,
            topics={target.name: target} if target else {},
            defaults=scene.defaults,
        ),
        claims=(CLAIM,) if source and scene.claimed else (),
        terms={rule.name: terms or RuleTerms() for rule in scene.flow.rules},
        book=_book(entries, scene),
        refused=scene.refused,
        acls=scene.acls,
        anew=scene.anew,
        unaltered=scene.unaltered,
        returned=scene.returned,
        unwanted=scene.unwanted,
        slots=SLOTS,
    )
    return plan(view)
