"""Which topics of a source are copied to which target topics, and how a target topic is made.

`choose` asks the policies in order: names and patterns, loops, origins by cluster.id, then claims
against all that is copied already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.configs import first_configs
from mirrorfleet.planning.observed import SourceTopic, SourceView
from mirrorfleet.planning.rules import RuleTerms, replication_factor
from mirrorfleet.policy.claims import Claim, settle
from mirrorfleet.policy.cycles import is_cycle_by_origin
from mirrorfleet.policy.flows import Flow
from mirrorfleet.policy.selection import select
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.incarnations import LossCause
from mirrorfleet.records.topics import TopicSpec


class Reason(StrEnum):
    """Why a topic is held back; the word of metrics, events and `/status`."""

    NEVER = "never"
    NAME = "name"
    IDENTITY_LOOP = "identity-loop"
    CLAIMED = "claimed"
    NOT_EMPTY = "not-empty"
    SOURCE_GONE = "source-gone"
    SOURCE_RECREATED = LossCause.SOURCE_RECREATED.value
    TARGET_GONE = "target-gone"
    TARGET_RECREATED = LossCause.TARGET_RECREATED.value
    TARGET_UNREAD = "target-unread"
    FORMER_TOPIC = "former-topic"
    UNREADABLE = "unreadable"
    NO_IDS = "no-topic-ids"
    REFUSED = "refused-by-target"
    CONFIG_REFUSED = "config-refused"
    ACL_REFUSED = "acl-refused"

    @property
    def may_pass(self) -> bool:
        """Whether one look may be mistaken: metadata of a broker that lags."""
        return self in _MAY_PASS


_MAY_PASS: Final = frozenset(
    {Reason.SOURCE_GONE, Reason.TARGET_GONE, Reason.TARGET_UNREAD, Reason.FORMER_TOPIC}
)


@dataclass(frozen=True, slots=True, order=True)
class Held:
    """A source topic that does not flow as its rule wants, and why."""

    topic: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """`skipped`: matched, and rightly not copied (internal, or a copy that would go back)."""

    claims: tuple[Claim, ...]
    held: tuple[Held, ...]
    skipped: int


def choose(
    flow: Flow,
    source: SourceView,
    target: ClusterId,
    running: Iterable[Claim],
    *,
    estate: Sequence[Flow] = (),
    ids: Mapping[ClusterAlias, ClusterId] | None = None,
) -> Chosen:
    """What the link copies now. `running` are the claims that hold already, of every link."""
    known = {**(ids or {}), flow.link.source: source.cluster, flow.link.target: target}
    selection = select(flow, sorted(source.topics), estate=estate, ids=known)
    came = {claim for claim in selection.claims if _came_from(target, source, claim)}
    settled = settle(running, [claim for claim in selection.claims if claim not in came])
    back = [_back(claim, target) for claim in came if claim.source_topic == claim.target_topic]
    clashes = (
        Held(clash.refused.source_topic, Reason.CLAIMED, str(clash)) for clash in settled.clashes
    )
    unexpected = [each for each in selection.refusals if not each.why.expected]
    refused = (Held(each.topic, Reason(each.why.value), each.detail) for each in unexpected)
    return Chosen(
        claims=settled.accepted,
        held=(*refused, *back, *clashes, *_unreadable(flow, source)),
        skipped=len(selection.refusals) - len(unexpected) + len(came) - len(back),
    )


def undecided(flow: Flow, source: SourceView, book: CatalogBook) -> tuple[Claim, ...]:
    """What the rules would take of topics that this look does not decide.

    One that is copied and not there counts: it may be the metadata of a broker that lags.
    """
    copied = {
        entry.source_topic
        for entry in book.of_source(source.cluster)
        if entry.state is not CatalogState.REMOVED
    }
    names = {*source.waiting, *source.unreadable, *(copied - source.present)}
    wanted = select(flow, sorted(names)).claims
    return settle(book.claims(), wanted).accepted if wanted else ()


def new_topic(
    claim: Claim, source: SourceTopic, terms: RuleTerms, defaults: Mapping[str, str], brokers: int
) -> TopicSpec:
    """The target topic to create; `defaults` is what a topic gets there without being asked."""
    return TopicSpec(
        name=claim.target_topic,
        partitions=source.partitions,
        replication_factor=replication_factor(terms.replication, source.replicas, brokers),
        configs=first_configs(source, terms, defaults),
    )


def _came_from(target: ClusterId, source: SourceView, claim: Claim) -> bool:
    return is_cycle_by_origin(source.origins.get(claim.source_topic, ()), target)


def _back(claim: Claim, target: ClusterId) -> Held:
    """Nothing in its name says that it is a copy, so its owner may take it for his own."""
    text = f"{claim.source_topic} is, or was, a copy of a topic of {claim.link.target} ({target})"
    return Held(claim.source_topic, Reason.IDENTITY_LOOP, text)


def _unreadable(flow: Flow, source: SourceView) -> Iterable[Held]:
    for topic, detail in source.unreadable.items():
        if flow.wants(topic):
            yield Held(topic, Reason.UNREADABLE, detail)
