"""The catalog entries of one copied topic: which stay, which begin, which end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import NO_TOPIC_ID, PartitionIdentity, SlotNumber, TopicId
from mirrorfleet.planning.observed import SourceTopic, TargetTopic
from mirrorfleet.planning.rules import FAIL, RuleTerms
from mirrorfleet.planning.slot_load import SlotLoad
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.catalog import CatalogLoss, CatalogPartition, CatalogState
from mirrorfleet.records.commands import Command
from mirrorfleet.records.incarnations import FROM_THE_START, LossCause

if TYPE_CHECKING:
    from mirrorfleet.planning.plan import LinkFacts

Copied = tuple[str, str, int]
"""What the incarnations of a partition have in common."""


class Topic:
    """One claim with what there is of it; `at_begin` are the topics that its rule began with."""

    def __init__(
        self,
        view: LinkFacts,
        claim: Claim,
        entries: Sequence[CatalogPartition],
        at_begin: frozenset[TopicId],
    ) -> None:
        self.view = view
        self.claim = claim
        self.entries = entries
        self.source: SourceTopic = view.source.topics[claim.source_topic]
        self.target: TargetTopic | None = view.target.topics.get(claim.target_topic)
        self.terms: RuleTerms = view.terms[claim.rule]
        self.is_new = not self._goes_on()
        there = self.is_new and self.source.topic_id in at_begin
        self.start = self.terms.start if there else FROM_THE_START

    def _goes_on(self) -> bool:
        """Whether it is copied, or was, from and to the topics of today.

        What has ended and was of other topics is history, and nothing can ask about it any more.
        """
        if any(entry.state is not CatalogState.REMOVED for entry in self.entries):
            return True
        return self._has_target() and (self._has_source() or self.terms.on_source_loss != FAIL)

    def _has_target(self) -> bool:
        known = {entry.identity.target_topic_id for entry in self.entries}
        return self.target is not None and self.target.topic_id in known

    def _has_source(self) -> bool:
        return self.source.topic_id in {entry.identity.source_topic_id for entry in self.entries}

    @property
    def is_others(self) -> bool | None:
        """Whether its target topic is none of the fleet's: it has records of others, and is not
        adopted. None while nobody can tell.
        """
        if not self.is_new or self.target is None or self.terms.adopt or self._has_target():
            return False
        return None if self.target.empty is None else not self.target.empty

    @cached_property
    def is_back(self) -> bool:
        """Whether what has ended for a later incarnation, which lives, seems to be there again."""
        living = [entry for entry in self.entries if entry.state is not CatalogState.REMOVED]
        if self.target is None or len(living) == len(self.entries):
            return False
        later = {number: one.identity.incarnation for number, one in _latest(living).items()}
        return any(
            one.state is CatalogState.REMOVED and later.get(number, -1) > one.identity.incarnation
            for number, one in self.current(self.target).items()
        )

    @property
    def is_as_before(self) -> bool:
        """Whether it only seems to be back: a broker that lags tells of topics that are gone."""
        return self.is_back and self.claim.source_topic not in self.view.returned

    def trouble(self) -> Held | None:
        """What forbids to go on with the history that the catalog knows, or to begin one."""
        link = self.view.link
        for alias, topic in ((link.source, self.source), (link.target, self.target)):
            if topic is not None and topic.topic_id == NO_TOPIC_ID:
                text = f"{topic.name} has no id on {alias}: another one of that name would not be"
                hint = "noticed. Raise inter.broker.protocol.version there to 2.8 or later"
                return self._held(Reason.NO_IDS, f"{text} {hint}")
        if self.is_new:
            foreign = self.target is not None and self.target.empty is False
            return self._behind_others() if foreign else None
        if self.target is None:
            return self._held(
                Reason.TARGET_GONE,
                f"{self.claim.target_topic} was deleted, or we may not DESCRIBE it; grant that, or"
                " create it again with as many partitions and say by `mirrorfleet resolve` whether"
                " its records are copied again",
            )
        if not self._has_target():
            return self._held(
                Reason.TARGET_RECREATED,
                f"{self.claim.target_topic} is another topic now ({self.target.topic_id})",
            )
        if not self._has_source() and self.terms.on_source_loss == FAIL:
            return self._held(
                Reason.SOURCE_RECREATED,
                f"{self.claim.source_topic} is another topic now ({self.source.topic_id})",
            )
        return self._former(self.target) if self.is_as_before else None

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

    def _behind_others(self) -> Held | None:
        """What forbids to begin behind records that are there.

        Where a rule leaves out what is copied already, a topic that came under it later may be
        copied already, too: whole, behind that, all of it would be there twice.
        """
        if self.start != self.terms.start and not self._has_target():
            return self._late()
        return None if self.terms.adopt else self._foreign()

    def _late(self) -> Held:
        source, rule = self.claim.source_topic, self.claim.rule
        return self._held(
            Reason.NOT_EMPTY,
            f"{self.claim.target_topic} on {self.view.link.target} has records that this fleet did"
            f" not write, and {source} came under rule {rule!r} after that began: it would be"
            f" copied whole behind them, not from `start: {self.terms.start}` on. Give it a rule of"
            " its own with `adopt: true` and the `start` that it needs; restart `sync` with it",
        )

    def _foreign(self) -> Held:
        whose = "that this fleet did not write"
        if self._has_target():
            whose = f"of the {self.claim.source_topic} that was there before"
        return self._held(
            Reason.NOT_EMPTY,
            f"{self.claim.target_topic} on {self.view.link.target} has records {whose};"
            " `adopt: true` in the rule takes it as it is and copies behind what it has, from the"
            f" rule's start on ({self.start}); restart `sync` with it",
        )

    def _former(self, target: TargetTopic) -> Held:
        source, link = self.source, self.view.link
        return self._held(
            Reason.FORMER_TOPIC,
            f"{source.name} on {link.source} ({source.topic_id}) and {target.name} on {link.target}"
            f" ({target.topic_id}) are what was copied before one of them was made again: a broker"
            " that lags says so; if it stays so, that copy goes on by itself",
        )

    def _held(self, reason: Reason, detail: str) -> Held:
        return Held(self.claim.source_topic, reason, detail)


def changed(topic: Topic, target: TargetTopic, load: SlotLoad) -> Iterable[CatalogPartition]:
    """Entries that are new or differ from the catalog's."""
    current, wishes = topic.current(target), _Wishes(topic)
    former = _latest(topic.entries)
    # first of all: a partition must never be copied under two incarnations
    yield from (
        replace(old, state=CatalogState.REMOVED)
        for old in topic.entries
        if old.state is not CatalogState.REMOVED and _is_former(topic, old, current)
    )
    incarnation = max((entry.identity.incarnation for entry in topic.entries), default=-1) + 1
    for number in range(min(topic.source.partitions, target.partitions)):
        entry = current.get(number)
        if entry is not None:
            wanted = _refreshed(topic, target, entry, wishes.of(number))
            if wanted != entry:
                yield wanted
            continue
        old = former.get(number)
        anew = old is not None and topic.begins_anew(old)
        if old is not None and not anew and old.state is not CatalogState.REMOVED:
            continue  # its worker asks for what comes next
        identity = PartitionIdentity(
            source_cluster=topic.view.source.cluster,
            source_topic_id=topic.source.topic_id,
            partition=number,
            target_topic_id=target.topic_id,
            incarnation=incarnation if old is not None else 0,
        )
        slot = load.assign() if old is None else old.slot
        loss = CatalogLoss(cause=LossCause.SOURCE_RECREATED) if anew else None
        entry = _entry(topic, target, identity, slot, topic.start)
        yield replace(wishes.of(number).heeded(entry), loss=loss)


def begun_anew(topic: Topic) -> Iterable[CatalogPartition]:
    """The incarnations that workers ask for; a request about an older one has been met."""
    target = topic.target
    if target is None or target.unread or topic.is_as_before:
        return
    for number, old in _latest(topic.entries).items():
        asked = topic.view.anew.get(old.identity)
        if asked is None or old.state is CatalogState.REMOVED or number >= target.partitions:
            continue
        if not _is_of_today(asked, topic, target):
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
        entry = _entry(topic, target, identity, old.slot, asked.start)
        yield replace(_Wish.of(old).heeded(entry), loss=loss)


def copy_of(entry: CatalogPartition) -> Copied:
    """Both topics, and the partition."""
    return entry.source_topic, entry.target_topic, entry.identity.partition


def replaced(entries: Collection[CatalogPartition]) -> frozenset[Copied]:
    """Of which partitions one incarnation ends and another one begins."""
    ended = {copy_of(entry) for entry in entries if entry.state is CatalogState.REMOVED}
    return frozenset(
        copy_of(entry) for entry in entries if entry.state is not CatalogState.REMOVED
    ).intersection(ended)


def _is_of_today(asked: Command, topic: Topic, target: TargetTopic) -> bool:
    """Whether a request is about the topics that are there: its offset means nothing in others.

    If not, its worker finds what else has changed, or that nothing has.
    """
    old = asked.identity
    other_source = old.source_topic_id != topic.source.topic_id
    other_target = old.target_topic_id != target.topic_id
    if asked.cause == LossCause.SOURCE_RECREATED:
        return other_source  # of an older source topic no copy can be had, wherever it was
    return not other_source and other_target == (asked.cause == LossCause.TARGET_RECREATED)


def _is_former(
    topic: Topic, old: CatalogPartition, current: Mapping[int, CatalogPartition]
) -> bool:
    """Whether another incarnation of the partition is there, or its topic has fewer now."""
    now = current.get(old.identity.partition)
    return topic.begins_anew(old) if now is None else now.identity != old.identity


@dataclass(frozen=True, slots=True)
class _Wish:
    """What an operator has asked of a partition: to stand, and a `throttle` for its rule's."""

    state: CatalogState = CatalogState.ACTIVE
    throttle: int | None = None

    @classmethod
    def of(cls, entry: CatalogPartition) -> _Wish:
        """What was asked of it."""
        return cls(entry.state, entry.throttle if entry.throttle_asked else None)

    def heeded(self, entry: CatalogPartition) -> CatalogPartition:
        """The entry, which is under its rule's terms, with this."""
        entry = replace(entry, state=self.state)
        if self.throttle is None:
            return entry
        return replace(entry, throttle=self.throttle, throttle_asked=True)


class _Wishes:
    """What an operator has asked of the partitions of a topic, whichever incarnation of them.

    What was asked of a topic as a whole holds for what it gets: nobody has thought of one more.
    """

    def __init__(self, topic: Topic) -> None:
        self._living = {
            entry.identity.partition: _Wish.of(entry)
            for entry in topic.entries
            if entry.state is not CatalogState.REMOVED
        }
        states = {wish.state for wish in self._living.values()}
        throttles = {wish.throttle for wish in self._living.values()}
        self._others = _Wish(
            CatalogState.PAUSED if states == {CatalogState.PAUSED} else CatalogState.ACTIVE,
            throttles.pop() if len(throttles) == 1 else None,
        )

    def of(self, number: int) -> _Wish:
        """Of what lives of the partition, and of one of which nothing does."""
        return self._living.get(number, self._others)


def _latest(entries: Iterable[CatalogPartition]) -> dict[int, CatalogPartition]:
    """The latest incarnation of each partition, removed or not."""
    ordered = sorted(entries, key=lambda entry: entry.identity.incarnation)
    return {entry.identity.partition: entry for entry in ordered}


def _refreshed(
    topic: Topic, target: TargetTopic, entry: CatalogPartition, wish: _Wish
) -> CatalogPartition:
    """The entry under today's terms; slot, start and what an operator has asked for are kept."""
    today = _entry(topic, target, entry.identity, entry.slot, entry.start)
    return replace(wish.heeded(today), loss=entry.loss)


def _entry(
    topic: Topic, target: TargetTopic, identity: PartitionIdentity, slot: SlotNumber, start: str
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
        target_max_batch_bytes=_largest_batch(topic, target),
        target_append_time=target.terms.append_time,
        target_compacted=target.terms.compacted,
        source_compacted=topic.source.terms.compacted,
        source_retention_ms=topic.source.kept_ms,
    )


def _largest_batch(topic: Topic, target: TargetTopic) -> int:
    """Where nobody may read what the target takes it is for the target to refuse what is larger."""
    there = target.terms.max_message_bytes
    is_known = target.overrides is not None
    return there if is_known else max(there, topic.source.terms.max_message_bytes)
