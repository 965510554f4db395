"""What must change so that a link's target topics and catalog entries are as they should be.

`plan` compares and returns data; nothing here acts. It is asked again after each step, so it never
assumes that a step worked: entries appear only for partitions that the target has, and an
empty plan means that all is in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirrorfleet.core.ids import Link, PartitionIdentity, SlotNumber
from mirrorfleet.planning.access import AclEdit, acl_edits
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.configs import ConfigEdit, config_edits
from mirrorfleet.planning.observed import (
    AclsSeen,
    SourceTopic,
    SourceView,
    TargetTopic,
    TargetView,
)
from mirrorfleet.planning.rules import FAIL, FROM_THE_START, RuleTerms
from mirrorfleet.planning.slot_load import SlotLoad
from mirrorfleet.planning.topics import Held, Reason, new_topic, undecided
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.flows import Flow
from mirrorfleet.records.catalog import CatalogLoss, CatalogPartition, CatalogState
from mirrorfleet.records.commands import Command
from mirrorfleet.records.topics import TopicSpec


@dataclass(frozen=True, slots=True)
class Creation:
    """A target topic to create."""

    claim: Claim
    spec: TopicSpec


@dataclass(frozen=True, slots=True)
class Growth:
    """A target topic that needs as many partitions as its source; it has `now`."""

    claim: Claim
    partitions: int
    now: int


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
    publish: tuple[CatalogPartition, ...] = ()
    known: frozenset[PartitionIdentity] = frozenset()
    """What of `publish` the catalog has already, under other terms."""
    held: tuple[Held, ...] = ()

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
class LinkView:
    """All that a plan is made from. `slots` are the link's; `terms` are by rule name."""

    link: Link
    source: SourceView
    target: TargetView
    claims: tuple[Claim, ...]
    terms: Mapping[str, RuleTerms]
    book: CatalogBook
    slots: tuple[SlotNumber, ...]
    acls: AclsView | None = None
    """None: not looked at this time."""
    anew: Mapping[PartitionIdentity, Command] = field(default_factory=dict)
    """Requests for another incarnation, by the one that stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsView:
    """What the ACLs of a link are decided on; `us` are the fleet's principals on both sides."""

    flow: Flow
    seen: AclsSeen
    us: frozenset[str]


@dataclass(slots=True)
class _Draft:
    create: list[Creation] = field(default_factory=list)
    grow: list[Growth] = field(default_factory=list)
    alter: list[Alteration] = field(default_factory=list)
    publish: list[CatalogPartition] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    def done(self, acls: tuple[AclEdit, ...], book: CatalogBook) -> Plan:
        return Plan(
            create=tuple(self.create),
            grow=tuple(self.grow),
            alter=tuple(self.alter),
            acls=acls,
            publish=tuple(self.publish),
            known=frozenset(
                entry.identity for entry in self.publish if entry.identity in book.partitions
            ),
            held=tuple(self.held),
        )


def plan(view: LinkView) -> Plan:
    """The changes of one link."""
    draft = _Draft()
    cluster = view.source.cluster
    load = SlotLoad(view.slots, view.book.slots_taken(cluster))
    copies: dict[tuple[str, str], list[CatalogPartition]] = {}
    for entry in view.book.of_source(cluster):
        copies.setdefault((entry.source_topic, entry.target_topic), []).append(entry)
    for claim in view.claims:
        entries = copies.pop((claim.source_topic, claim.target_topic), [])
        _plan_topic(_Topic(view, claim, entries), load, draft)
    for (topic, _), entries in copies.items():
        _leave(view, topic, entries, draft)
    return draft.done(_acls(view), view.book)


def _acls(view: LinkView) -> tuple[AclEdit, ...]:
    """Also of topics that are held: a right to read what is there does no harm to the copy."""
    if view.acls is None:
        return ()
    flow, us = view.acls.flow, view.acls.us
    crossings = Crossings(flow, view.claims, us)
    unsure = Crossings(flow, undecided(flow, view.source, view.book), us)
    ours = view.book.acls_of(view.source.cluster)
    return acl_edits(flow.acls, view.acls.seen, ours, crossings, unsure)


class _Topic:
    """One claim with what there is of it."""

    def __init__(self, view: LinkView, claim: Claim, entries: list[CatalogPartition]) -> None:
        self.view = view
        self.claim = claim
        self.entries = entries
        self.source: SourceTopic = view.source.topics[claim.source_topic]
        self.target: TargetTopic | None = view.target.topics.get(claim.target_topic)
        self.terms: RuleTerms = view.terms[claim.rule]

    def trouble(self) -> Held | None:
        """What forbids to go on with the history that the catalog knows, or to begin one."""
        if not self.entries:
            foreign = self.target is not None and self.target.empty is False
            if foreign and not self.terms.adopt:
                return self._held(
                    Reason.NOT_EMPTY,
                    f"{self.claim.target_topic} on {self.view.link.target} has records that"
                    " this fleet did not write; `adopt: true` in the rule takes it as it is",
                )
            return None
        target_ids = {entry.identity.target_topic_id for entry in self.entries}
        if self.target is None:
            return self._held(Reason.TARGET_GONE, f"{self.claim.target_topic} was deleted")
        if self.target.topic_id not in target_ids:
            return self._held(
                Reason.TARGET_RECREATED,
                f"{self.claim.target_topic} is another topic now ({self.target.topic_id})",
            )
        source_ids = {entry.identity.source_topic_id for entry in self.entries}
        if self.source.topic_id not in source_ids and self.terms.on_source_loss == FAIL:
            return self._held(
                Reason.SOURCE_RECREATED,
                f"{self.claim.source_topic} is another topic now ({self.source.topic_id})",
            )
        return None

    def current(self, target: TargetTopic) -> dict[int, CatalogPartition]:
        """Entries of the topics that exist now, the latest incarnation of each partition."""
        found: dict[int, CatalogPartition] = {}
        for entry in sorted(self.entries, key=lambda one: one.identity.incarnation):
            ids = (entry.identity.source_topic_id, entry.identity.target_topic_id)
            if ids == (self.source.topic_id, target.topic_id):
                found[entry.identity.partition] = entry
        return found

    def begins_anew(self, old: CatalogPartition) -> bool:
        """Whether the rule lets a partition of a recreated source go on without a request."""
        same_target = self.target is not None and (
            old.identity.target_topic_id == self.target.topic_id
        )
        recreated = old.identity.source_topic_id != self.source.topic_id
        return same_target and recreated and self.terms.on_source_loss != FAIL

    def _held(self, reason: Reason, detail: str) -> Held:
        return Held(self.claim.source_topic, reason, detail)


def _plan_topic(topic: _Topic, load: SlotLoad, draft: _Draft) -> None:
    anew = list(_begun_anew(topic))
    if anew:
        draft.publish.extend(anew)
        return  # the rest with the next look, which knows them
    trouble = topic.trouble()
    if trouble is not None:
        draft.held.append(trouble)
        return
    view, target = topic.view, topic.target
    if target is not None and target.unread:
        claim = topic.claim
        text = f"the configs of {claim.target_topic} cannot be read: they decide how it is copied"
        draft.held.append(Held(claim.source_topic, Reason.TARGET_UNREAD, text))
        return
    if target is not None and target.empty is None and not topic.entries:
        return  # just created, and its leaders do not answer yet
    if target is None:
        spec = new_topic(
            topic.claim, topic.source, topic.terms, view.target.defaults, view.target.brokers
        )
        draft.create.append(Creation(topic.claim, spec))
        return
    if target.partitions < topic.source.partitions:
        draft.grow.append(Growth(topic.claim, topic.source.partitions, target.partitions))
    defaults = view.target.defaults
    adopting = None if topic.entries else defaults
    edits = config_edits(topic.source, target, topic.terms, defaults=defaults, adopting=adopting)
    if edits:
        draft.alter.append(Alteration(topic.claim, edits))
    draft.publish.extend(_changed(topic, target, load))


def _changed(topic: _Topic, target: TargetTopic, load: SlotLoad) -> Iterable[CatalogPartition]:
    """Entries that are new or differ from the catalog's."""
    current = topic.current(target)
    former = _latest(topic.entries)
    # first of all: a partition must never be copied under two incarnations
    yield from (
        replace(old, state=CatalogState.REMOVED)
        for old in topic.entries
        if old.state is not CatalogState.REMOVED and _is_former(topic, old, current)
    )
    incarnation = max((entry.identity.incarnation for entry in topic.entries), default=-1) + 1
    start = topic.terms.start
    if topic.entries or topic.source.created_late:
        start = FROM_THE_START  # all that it ever held came after we began to look
    for number in range(min(topic.source.partitions, target.partitions)):
        entry = current.get(number)
        if entry is None:
            old = former.get(number)
            if old is not None and not topic.begins_anew(old):
                continue
            identity = PartitionIdentity(
                source_cluster=topic.view.source.cluster,
                source_topic_id=topic.source.topic_id,
                partition=number,
                target_topic_id=target.topic_id,
                incarnation=incarnation if old is not None else 0,
            )
            slot = load.assign() if old is None else old.slot
            loss = None if old is None else CatalogLoss(cause=Reason.SOURCE_RECREATED)
            yield replace(_entry(topic, target, identity, slot, start), loss=loss)
        else:
            wanted = _refreshed(topic, target, entry)
            if wanted != entry:
                yield wanted


def _is_former(
    topic: _Topic, old: CatalogPartition, current: Mapping[int, CatalogPartition]
) -> bool:
    """Whether another incarnation of the partition is there, or its topic has fewer now."""
    now = current.get(old.identity.partition)
    return topic.begins_anew(old) if now is None else now.identity != old.identity


def _latest(entries: Iterable[CatalogPartition]) -> dict[int, CatalogPartition]:
    """The latest incarnation of each partition, removed or not."""
    ordered = sorted(entries, key=lambda entry: entry.identity.incarnation)
    return {entry.identity.partition: entry for entry in ordered}


def _begun_anew(topic: _Topic) -> Iterable[CatalogPartition]:
    """The incarnations that workers ask for; a request about an older one has been met."""
    target = topic.target
    if target is None or target.unread:
        return
    for number, old in _latest(topic.entries).items():
        asked = topic.view.anew.get(old.identity)
        if asked is None or old.state is CatalogState.REMOVED or number >= target.partitions:
            continue
        if number >= topic.source.partitions:
            yield replace(old, state=CatalogState.REMOVED)  # its topic has fewer now
            continue
        identity = replace(
            old.identity,
            source_topic_id=topic.source.topic_id,
            target_topic_id=target.topic_id,
            incarnation=old.identity.incarnation + 1,
        )
        loss = CatalogLoss(
            cause=asked.cause,
            first=asked.first,
            end=asked.end,
            records=asked.records,
            request=asked.request,
            detail=asked.detail,
        )
        yield replace(old, state=CatalogState.REMOVED)
        yield replace(_entry(topic, target, identity, old.slot, asked.start), loss=loss)


def _refreshed(topic: _Topic, target: TargetTopic, entry: CatalogPartition) -> CatalogPartition:
    """The entry under today's terms; slot, start and pause are kept."""
    state = entry.state if entry.state is not CatalogState.REMOVED else CatalogState.ACTIVE
    today = _entry(topic, target, entry.identity, entry.slot, entry.start)
    return replace(today, state=state, loss=entry.loss)


def _entry(
    topic: _Topic, target: TargetTopic, identity: PartitionIdentity, slot: SlotNumber, start: str
) -> CatalogPartition:
    source = topic.view.source
    passed = source.origins.get(topic.claim.source_topic, ())
    return CatalogPartition(
        identity=identity,
        link=topic.view.link,
        source_topic=topic.claim.source_topic,
        target_topic=topic.claim.target_topic,
        slot=slot,
        priority=topic.terms.priority,
        rule=topic.claim.rule,
        start=start,
        on_source_loss=topic.terms.on_source_loss,
        throttle=topic.terms.throttle,
        null_keys=topic.terms.null_keys if target.terms.compacted else "allow",
        origins=(source.cluster, *passed),
        target_max_batch_bytes=target.terms.max_message_bytes,
        target_append_time=target.terms.append_time,
        target_compacted=target.terms.compacted,
        source_retention_ms=topic.source.terms.kept_ms,
    )


def _leave(view: LinkView, topic: str, entries: list[CatalogPartition], draft: _Draft) -> None:
    """A topic of the catalog that nothing claims now: gone (kept), or no longer wanted."""
    source = view.source
    live = [entry for entry in entries if entry.state is not CatalogState.REMOVED]
    if not live or topic in source.unreadable or topic in source.waiting:
        return
    if topic in source.present:
        draft.publish.extend(replace(entry, state=CatalogState.REMOVED) for entry in live)
    else:
        detail = f"{topic} is no longer on {view.link.source}; its copy and position are kept"
        draft.held.append(Held(topic, Reason.SOURCE_GONE, detail))
