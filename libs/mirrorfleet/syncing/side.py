"""One link of a fleet at work: what the estate says of it, its source, and what it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import flow_of
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.rules import Apply
from mirrorfleet.policy.naming import is_internal_topic
from mirrorfleet.syncing.settings import SyncSettings, terms_of
from mirrorfleet.watching.acls import AclWatch
from mirrorfleet.watching.source import SourceWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.config.model import Estate, EstateLink
    from mirrorfleet.core.access import AclBinding
    from mirrorfleet.core.ids import ClusterId, Link, SlotNumber
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.planning.rules import RuleTerms
    from mirrorfleet.policy.claims import Claim
    from mirrorfleet.policy.flows import Flow

CLIENT: Final = "mirrorfleet-sync"


@dataclass(slots=True)
class Side:
    """`known`: its source is what it was, and the catalog has it with its slots, if anything may be
    written for it at all; `claims` are those of the last plan, `back` its `Plan.back` and
    `unwanted` its `Plan.unwanted`, each with since when.
    """

    flow: Flow
    terms: Mapping[str, RuleTerms]
    wanted_slots: int
    cluster: Cluster
    watch: SourceWatch
    acls: AclWatch
    source_cluster: ClusterId | None = None
    slots: tuple[SlotNumber, ...] = ()
    claims: tuple[Claim, ...] = ()
    acl_trouble: str = ""
    known: bool = False
    back: dict[str, float] = field(default_factory=dict)
    unwanted: dict[AclBinding, float] = field(default_factory=dict)

    @property
    def link(self) -> Link:
        """Both aliases."""
        return self.flow.link

    @property
    def is_met(self) -> bool:
        """Whether its source is known; what answers for a forgotten one may be another cluster."""
        return self.source_cluster is not None and self.cluster.cluster_id != ""

    @property
    def may_change(self) -> bool:
        """Whether any rule of the link lets us act."""
        return any(terms.apply is Apply.AUTO for terms in self.terms.values())


def a_side(
    estate: Estate, entry: EstateLink, target: Cluster, settings: SyncSettings, clock: Clock
) -> Side:
    """A link, configured and not connected."""
    flow = flow_of(estate, entry)
    cluster = Cluster(cluster_settings(estate, entry.source, CLIENT))

    def wants(topic: str) -> bool:
        return not is_internal_topic(topic) and flow.wants(topic)

    return Side(
        flow=flow,
        terms=terms_of(entry, estate.cluster(entry.target), settings.apply),
        wanted_slots=entry.slots,
        cluster=cluster,
        watch=SourceWatch(cluster, wants, configs_a_look=settings.configs_a_look),
        acls=AclWatch(cluster, target, clock, period_s=settings.acls_period_s),
    )
