"""What must change so that a link's target topics and catalog entries are as they should be.

`plan` compares and returns data; nothing here acts. It is asked again after each step, so it never
assumes that a step worked: entries appear only for partitions that the target has, and an
empty plan means that all is in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.errors import HOW_TO_GRANT
from mirrorfleet.core.ids import Link, PartitionIdentity, SlotNumber
from mirrorfleet.planning.access import AclEdit, acl_edits
from mirrorfleet.planning.beginnings import beginning, topics_at_begin
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.configs import ConfigEdit, config_edits
from mirrorfleet.planning.entries import Topic, begun_anew, changed
from mirrorfleet.planning.observed import AclsSeen, SourceView, TargetView
from mirrorfleet.planning.rules import ConfigPolicy, RuleTerms
from mirrorfleet.planning.slot_load import SlotLoad
from mirrorfleet.planning.topics import Held, Reason, new_topic, undecided
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition, CatalogState
from mirrorfleet.records.commands import Command
from mirrorfleet.records.incarnations import FROM_THE_START
from mirrorfleet.records.topics import TopicSpec


@dataclass(frozen=True, slots=True)
class Creation:
    """A target topic to create; `start` is where copying into it begins."""

    claim: Claim
    spec: TopicSpec
    source_replicas: int = 1
    start: str = FROM_THE_START


@dataclass(frozen=True, slots=True)
class Growth:
    """A target topic that needs as many partitions as its source; it has `now`."""

    claim: Claim
    partitions: int
    now: int
    start: str = FROM_THE_START


@dataclass(frozen=True, slots=True)
class Alteration:
    """Config entries to change on a target topic."""

    claim: Claim
    edits: tuple[ConfigEdit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Topics first, then `publish`: an entry must never be seen before its target topic."""

    create: tuple[Creation, ...] = ()
    grow: tuple[Growth, ...] = ()
    alter: tuple[Alteration, ...] = ()
    acls: tuple[AclEdit, ...] = ()
    acls_later: tuple[AclEdit, ...] = ()
    """Those that take back what not all looks have called unwanted for long enough; none is made
    yet.
    """
    publish: tuple[CatalogPartition, ...] = ()
    known: frozenset[PartitionIdentity] = frozenset()
    """What of `publish` the catalog has already, under other terms."""
    begun: CatalogLink | None = None
    """What the rules found at their first look; written before `publish`, and no change to see."""
    ended: Mapping[str, str] = field(default_factory=dict)
    """Why a source topic is not copied any more, where `publish` ends it."""
    held: tuple[Held, ...] = ()
    back: frozenset[str] = frozenset()
    """Source topics of which one side, or both, seem to be what they were before: `returned`."""

    @property
    def unwanted(self) -> frozenset[AclBinding]:
        """ACLs of ours that no source wants, as this look has it."""
        edits = (*self.acls, *self.acls_later)
        return frozenset(each.binding for each in edits if each.takes_back)

    @property
    def changes_topics(self) -> bool:
        """Whether the target must be looked at again afterwards."""
        return bool(self.create or self.grow or self.alter)

    @property
    def changes_target(self) -> bool:
        """Whether there is anything to do but to publish."""
        return self.changes_topics or bool(self.acls)

    @property
    def pending(self) -> int:
        """Number of changes."""
        topics = len(self.create) + len(self.grow) + len(self.alter)
        return topics + len(self.acls) + len(self.publish)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """All that a plan is made from. `slots` are the link's; `terms` are by rule name."""

    flow: Flow
    source: SourceView
    target: TargetView
    claims: tuple[Claim, ...]
    terms: Mapping[str, RuleTerms]
    book: CatalogBook
    slots: tuple[SlotNumber, ...]
    refused: tuple[Held, ...] = ()
    """Topics that a rule takes and that cannot be claimed."""
    acls: AclsView | None = None
    """None: not looked at this time."""
    anew: Mapping[PartitionIdentity, Command] = field(default_factory=dict)
    """Requests for another incarnation, by the one that stands still."""
    unaltered: frozenset[str] = frozenset()
    """Target topics whose configs the target refuses to change now."""
    returned: frozenset[str] = frozenset()
    """Those that were in `Plan.back` for longer than any broker lags."""
    unwanted: frozenset[AclBinding] = frozenset()
    """Those that were in `Plan.unwanted` for longer than any broker lags."""

    @property
    def link(self) -> Link:
        """Both aliases."""
        return self.flow.link


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsView:
    """What the ACLs of a link are decided on; `us` are the fleet's principals on both sides."""

    seen: AclsSeen
    us: frozenset[str]


@dataclass(slots=True)
class _Draft:
    create: list[Creation] = field(default_factory=list)
    grow: list[Growth] = field(default_factory=list)
    alter: list[Alteration] = field(default_factory=list)
    publish: list[CatalogPartition] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    back: set[str] = field(default_factory=set)
    others: dict[Claim, bool | None] = field(default_factory=dict)
    """Of each claim whether its target topic is none of the fleet's, as far as anybody can tell."""

    def done(self, view: LinkFacts) -> Plan:
        acls = _acls(view, self.others)
        later = {e.binding for e in acls if e.takes_back} - view.unwanted
        return Plan(
            create=tuple(self.create),
            grow=tuple(self.grow),
            alter=tuple(self.alter),
            acls=tuple(each for each in acls if each.binding not in later),
            acls_later=tuple(each for each in acls if each.binding in later),
            publish=tuple(self.publish),
            known=frozenset(
                entry.identity for entry in self.publish if entry.identity in view.book.partitions
            ),
            begun=beginning(view),
            ended=self.ended,
            held=tuple(self.held),
            back=frozenset(self.back),
        )


def plan(view: LinkFacts) -> Plan:
    """The changes of one link."""
    draft = _Draft()
    cluster = view.source.cluster
    load = SlotLoad(view.slots, view.book.slots_taken(cluster))
    copies: dict[tuple[str, str], list[CatalogPartition]] = {}
    for entry in view.book.of_source(cluster):
        copies.setdefault((entry.source_topic, entry.target_topic), []).append(entry)
    at_begin = topics_at_begin(view)
    for claim in view.claims:
        entries = copies.pop((claim.source_topic, claim.target_topic), [])
        topic = Topic(view, claim, entries, at_begin.get(claim.rule, frozenset()))
        draft.others[claim] = topic.is_others
        if topic.is_back:
            draft.back.add(claim.source_topic)
        _plan_topic(topic, load, draft)
    _leave(view, copies, draft)
    return draft.done(view)


def _acls(view: LinkFacts, others: Mapping[Claim, bool | None]) -> tuple[AclEdit, ...]:
    """Also of topics that are held: a right to read what is there does no harm to the copy.

    But none on a topic of `others`, and none new where it may be one: the source has no say there.
    """
    if view.acls is None:
        return ()
    flow, us = view.flow, view.acls.us
    crossings = Crossings(flow, (each for each in view.claims if others[each] is False), us)
    untold = (each for each in view.claims if others[each] is None)
    waiting = undecided(flow, view.source, view.book)
    unsure = Crossings(flow, (*waiting, *untold), us)
    copied = {(e.source_topic, e.target_topic) for e in view.book.claims() if e.link == flow.link}
    left = (each for each in waiting if (each.source_topic, each.target_topic) in copied)
    ended = Crossings(flow, (*view.book.ended(flow.link), *left), us)
    ours = view.book.acls_of(view.source.cluster)
    return acl_edits(flow.acls, view.acls.seen, ours, crossings, unsure, ended)


def _plan_topic(topic: Topic, load: SlotLoad, draft: _Draft) -> None:
    anew = list(begun_anew(topic))
    if anew:
        draft.publish.extend(anew)
        return  # the rest with the next look, which knows them
    trouble = topic.trouble()
    if trouble is not None:
        draft.held.append(trouble)
        return
    view, target = topic.view, topic.target
    untold = _untold(topic)
    if untold is not None:
        draft.held.append(untold)
        return
    if target is None:
        spec = new_topic(
            topic.claim, topic.source, topic.terms, view.target.defaults, view.target.brokers
        )
        draft.create.append(Creation(topic.claim, spec, topic.source.replicas, topic.start))
        return
    if target.partitions < topic.source.partitions:
        count = topic.source.partitions
        draft.grow.append(Growth(topic.claim, count, target.partitions, topic.start))
        if topic.start != FROM_THE_START:
            return  # what is made later would count as new, and be copied whole
    defaults = view.target.defaults
    # without the right to read its configs nobody knows that a copy is exact: it is made so once,
    # and a refusal of that must not be forgotten because the catalog has the topic by then
    unsure = topic.is_new or target.name in view.unaltered
    assumed = defaults if unsure else None
    edits = config_edits(topic.source, target, topic.terms, defaults=defaults, assumed=assumed)
    if edits:
        draft.alter.append(Alteration(topic.claim, edits))
    draft.publish.extend(changed(topic, target, load))


def _untold(topic: Topic) -> Held | None:
    """What must be known of either side and nobody tells; the next look may know it."""
    name, target = topic.claim.source_topic, topic.target
    if target is None:
        follows = topic.terms.configs is ConfigPolicy.FOLLOW
        guessed = follows and topic.source.overrides is None
        return Held(name, Reason.UNREADABLE, _denied(topic)) if guessed else None
    if target.unread:
        text = f"the configs of {target.name} cannot be read: they decide how it is copied"
        return Held(name, Reason.TARGET_UNREAD, text)
    if target.empty is None and topic.is_new:  # just created, perhaps
        why = "some partition of it has no leader, or one that does not answer"
        text = f"nobody says whether {target.name} is empty: {why}"
        return Held(name, Reason.TARGET_UNREAD, text)
    return None


def _denied(topic: Topic) -> str:
    name = topic.claim.source_topic
    return (
        f"we may not DESCRIBE_CONFIGS Topic:{name} on {topic.view.link.source}, and a copy without"
        " its configs would keep, or delete, what it does not: none is made."
        f" {HOW_TO_GRANT} Or say `configs: ignore` in its rule and restart `sync`: then it is made"
        " with the target's own"
    )


def _leave(
    view: LinkFacts, copies: Mapping[tuple[str, str], list[CatalogPartition]], draft: _Draft
) -> None:
    """Topics of the catalog that nothing claims now: gone (kept), or no longer wanted."""
    live = {
        names: [entry for entry in entries if entry.state is not CatalogState.REMOVED]
        for names, entries in copies.items()
    }
    source, refused = view.source, {each.topic: each.detail for each in view.refused}
    unsure = undecided(view.flow, source, view.book) if any(live.values()) else ()
    may_be_wanted = {(claim.source_topic, claim.target_topic) for claim in unsure}
    for (topic, target), entries in live.items():
        if not entries:
            continue
        if (topic, target) not in may_be_wanted:
            draft.publish.extend(replace(entry, state=CatalogState.REMOVED) for entry in entries)
            draft.ended[topic] = refused.get(topic, f"no rule takes {topic} as it is now")
        elif topic not in source.unreadable and topic not in source.waiting:
            detail = (
                f"{topic} is no longer on {view.link.source}, or we may not DESCRIBE it; its copy"
                " and position are kept until its rule leaves it out (`exclude`)"
            )
            draft.held.append(Held(topic, Reason.SOURCE_GONE, detail))
