"""Changing a target: topics, their configs, ACLs. What is refused holds up only what it limits.

A refusal is remembered per link, thing and kind of change, shown as held, and tried again later
and later; soon where it ends by itself. Success of the same change ends it. Of a topic's configs
Kafka takes all or none: where it refuses them, they are asked for in parts (`planning.pieces`), and
a new topic is made with the least that a copy may be made with: the rest follows, or is held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from mirrorfleet.core.access import AclBinding, show
from mirrorfleet.core.error_codes import DENIED, ErrorCode
from mirrorfleet.core.errors import HOW_TO_GRANT, may_not
from mirrorfleet.kafka.acls import create_acls, delete_acls
from mirrorfleet.kafka.admin import NewTopic, create_partitions, create_topics, records_of
from mirrorfleet.kafka.configs import AlterOp, ConfigChange, incremental_alter_configs
from mirrorfleet.kafka.controller import in_requests
from mirrorfleet.planning.access import AclStep
from mirrorfleet.planning.limits import Limited, denials_and_rights, limited
from mirrorfleet.planning.pieces import Pieces, is_final, least_configs
from mirrorfleet.planning.plan import Alteration, Creation, Plan
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.syncing.changes import (
    ACL_KINDS,
    OPERATIONS,
    Change,
    ChangeKind,
    Done,
    changes_of,
    edit_words,
    of_acl,
    of_topic,
    reason_of,
    size_words,
)

if TYPE_CHECKING:
    from mirrorfleet.core.errors import BrokerError
    from mirrorfleet.core.ids import Link
    from mirrorfleet.core.ports import Clock, Dice
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.planning.configs import ConfigEdit
    from mirrorfleet.policy.claims import Claim
    from mirrorfleet.syncing.settings import SyncSettings

K = TypeVar("K", str, AclBinding)
T = TypeVar("T")

FOR_NOW_S: Final = 4.0
"""A refusal that ends by itself is asked again after this at most: what waits is not copied."""
FOR_NOW: Final = 40
"""After so many times it is one like others: a factor of 3 may be too much for good."""
ACLS: Final = "(acls)"
"""Stands for a topic where ACLs of a link are held."""


_BY_CONFIGS: Final = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION})
"""What a topic may be refused with for its configs."""


@dataclass(slots=True)
class _Refusal:
    text: str
    failures: int = 0
    retry_at: float = 0.0


class TargetChanges:
    """Makes changes on one target, and remembers what it refused.

    `doubt` is called when the target refuses the configs of a new topic: it may be of another
    version than when it told what it knows.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: SyncSettings,
        clock: Clock,
        dice: Dice,
        doubt: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._doubt = doubt
        self._settings = settings
        self._clock = clock
        self._dice = dice
        self._refused: dict[Change, _Refusal] = {}
        self._unseen: set[Change] = set()
        """Topics that were there when they were to be created, and that no look has shown since."""
        self._waits: dict[Link, Limited] = {}
        """What waits for denials."""
        self.vain: set[AclBinding] = set()
        """Of the step that was made last: ACLs that are surely not added."""

    def next_step(self, link: Link, plan: Plan, tried: set[Change]) -> Plan:
        """What of `plan` is due and not `tried`, no more than one request takes; marks it tried."""

        def due(change: Change) -> bool:
            refusal = self._refused.get(change)
            waits = refusal is not None and refusal.retry_at > self._clock.monotonic()
            return not waits and change not in tried

        def topics(kind: ChangeKind) -> Callable[[Claim], bool]:
            return lambda claim: due(of_topic(claim, kind))

        waits = self._waits[link] = limited(plan, self._undone(link, plan, due, tried))
        plan = waits.left_of(plan)
        created, grown = topics(ChangeKind.CREATED), topics(ChangeKind.GROWN)
        altered = topics(ChangeKind.ALTERED)
        most = self._settings.topics_a_request
        edits = (each for each in plan.acls if each.step in ACL_KINDS)
        acls = (each for each in edits if due(of_acl(link, each.binding, each.step)))
        step = Plan(
            create=_first(
                (e for e in plan.create if created(e.claim)), lambda e: records_of(e.spec), most
            ),
            grow=_first((e for e in plan.grow if grown(e.claim)), lambda e: e.partitions - e.now),
            alter=_first((e for e in plan.alter if altered(e.claim)), lambda e: len(e.edits)),
            acls=_first(acls, lambda _: 1),
        )
        tried.update(changes_of(link, step))
        return step

    async def make(self, link: Link, step: Plan) -> AsyncIterator[list[Done]]:
        """Make the changes, and give what a request has made before the next one is sent.

        Refusals are kept for `held`. ACLs first: what a denial limits is made after it, or waits.

        Raises:
            MirrorfleetError: the target does not answer at all.
        """
        self.vain = set()
        denials, _ = denials_and_rights(step)
        yield await self._acls(link, AclStep.ADD, denials)
        undone = [each for each in denials if of_acl(link, each) in self._refused]
        waits = limited(step, undone)
        self.vain.update(waits.rights)
        step = waits.left_of(step)
        yield await self._acls(link, AclStep.ADD, denials_and_rights(step)[1])
        removed = [each.binding for each in step.acls if each.step is AclStep.REMOVE]
        yield await self._acls(link, AclStep.REMOVE, removed)
        async for made in self._create(step):
            yield made
        yield await self._grow(step)
        async for made in self._alter(step):
            yield made

    def held(self, link: Link) -> tuple[Held, ...]:
        """What the target refuses now, and topics that wait for it; ACLs as one."""
        mine = [(each, refusal) for each, refusal in self._refused.items() if each.link == link]
        acls = [refusal.text for change, refusal in mine if not change.topic]
        text = f"{len(acls)} ACLs, the first: {acls[0]}" if acls else ""
        topics = {change.topic for change, _ in mine}
        waits = self._waits.get(link, Limited()).held()
        return (
            *(
                Held(change.topic, reason_of(change.kind), refusal.text)
                for change, refusal in mine
                if change.topic
            ),
            *(each for each in waits if each.topic not in topics),
            *([Held(ACLS, Reason.ACL_REFUSED, text)] if acls else []),
        )

    def refused(self, link: Link) -> set[str]:
        """The target topics and ACLs, in words, that the target refuses now, or that wait."""
        mine = [change for change in self._refused if change.link == link]
        names = {show(change.acl) if change.acl else change.target for change in mine}
        return names | self._waits.get(link, Limited()).names()

    def unaltered(self, link: Link) -> frozenset[str]:
        """The target topics whose configs the target refuses to change now."""
        mine = (change for change in self._refused if change.link == link)
        return frozenset(one.target for one in mine if one.kind is ChangeKind.ALTERED)

    def forget(self, link: Link, planned: Plan) -> None:
        """Drop what is remembered of changes that are no longer wanted."""
        wanted = set(changes_of(link, planned))
        for change in {*self._refused, *self._unseen}:
            if change.link == link and change not in wanted:
                self._refused.pop(change, None)
                self._unseen.discard(change)

    def hold_unseen(self, planned: Plan) -> None:
        """Hold, with why, what is still to be created though it was, and had time to be seen."""
        for each in planned.create:
            change = of_topic(each.claim, ChangeKind.CREATED)
            waits = self._waits.get(change.link, Limited()).topics
            if change not in self._refused and each.claim not in waits:
                self._refuse(change, self._why_unseen(change))

    def _undone(
        self, link: Link, plan: Plan, due: Callable[[Change], bool], tried: set[Change]
    ) -> list[AclBinding]:
        """Denials that are not there, and that the next step does not ask for.

        One that was tried and not refused is there, though no list shows it yet.
        """
        denials = {of_acl(link, each): each for each in denials_and_rights(plan)[0]}
        asked = {*_first(filter(due, denials), lambda _: 1)}
        return [
            each
            for change, each in denials.items()
            if change not in asked and (change in self._refused or change not in tried)
        ]

    async def _create(self, step: Plan) -> AsyncIterator[list[Done]]:
        answers = await self._topics(step.create)
        fewer: dict[Change, str] = {}
        again: list[Creation] = []
        for each in step.create:
            error, least = answers[each.claim.target_topic], least_configs(each.spec.configs)
            if error is None or error.code not in _BY_CONFIGS or least == each.spec.configs:
                continue
            change = of_topic(each.claim, ChangeKind.CREATED)
            without = ", ".join(sorted(each.spec.configs.keys() - least.keys()))
            fewer[change] = f"{size_words(each)}, without {without} for now: {error}"
            again.append(replace(each, spec=replace(each.spec, configs=least)))
        whole = {of_topic(each.claim, ChangeKind.CREATED): size_words(each) for each in step.create}
        yield self._settle(answers, {one: whole[one] for one in whole if one not in fewer})
        yield self._settle(await self._topics(again), fewer)

    async def _topics(self, parts: Sequence[Creation]) -> Mapping[str, BrokerError | None]:
        if not parts:
            return {}
        topics = [NewTopic.of(each.spec) for each in parts]
        answers = await create_topics(self._cluster, topics, deadline_s=self._settings.change_s)
        if any(e is not None and e.code is ErrorCode.INVALID_CONFIG for e in answers.values()):
            self._doubt()
        return answers

    async def _grow(self, step: Plan) -> list[Done]:
        if not step.grow:
            return []
        counts = {each.claim.target_topic: each.partitions for each in step.grow}
        answers = await create_partitions(self._cluster, counts, deadline_s=self._settings.change_s)
        return self._settle(
            answers,
            {
                of_topic(
                    each.claim, ChangeKind.GROWN
                ): f"{each.claim.target_topic} from {each.now} to {each.partitions} partitions"
                for each in step.grow
            },
        )

    async def _alter(self, step: Plan) -> AsyncIterator[list[Done]]:
        answers = await self._configs(step.alter)
        asked = {of_topic(each.claim, ChangeKind.ALTERED): edit_words(each) for each in step.alter}
        yield self._settle(answers, asked)
        refused: dict[Claim, Pieces] = {}
        for each in step.alter:
            error = answers[each.claim.target_topic]
            if error is not None and is_final(error):
                refused[each.claim] = Pieces(each.edits, error)
        async for made in self._in_parts(refused):
            yield made

    async def _in_parts(self, refused: Mapping[Claim, Pieces]) -> AsyncIterator[list[Done]]:
        """Make what is not refused itself, a part of each topic with a request; hold the rest."""
        while parts := [Alteration(claim, one.part) for claim, one in refused.items() if one.part]:
            answers = await self._configs(parts)
            made: list[Done] = []
            for each in parts:
                error = answers[each.claim.target_topic]
                refused[each.claim].answer(error)
                if error is None:
                    made.append(Done(of_topic(each.claim, ChangeKind.ALTERED), edit_words(each)))
            yield made
        for claim, one in refused.items():
            change = of_topic(claim, ChangeKind.ALTERED)
            if one.refusal:
                self._refused[change].text = one.refusal
            else:
                self._refused.pop(change, None)

    async def _configs(self, parts: Sequence[Alteration]) -> Mapping[str, BrokerError | None]:
        if not parts:
            return {}
        changes = {each.claim.target_topic: _altered(each.edits) for each in parts}
        return await incremental_alter_configs(
            self._cluster, changes, deadline_s=self._settings.change_s
        )

    async def _acls(self, link: Link, what: AclStep, bindings: Sequence[AclBinding]) -> list[Done]:
        if not bindings:
            return []
        ask = create_acls if what is AclStep.ADD else delete_acls
        answers = await ask(self._cluster, bindings, deadline_s=self._settings.change_s)
        if what is AclStep.ADD:
            self.vain.update(each for each in bindings if _is_surely_not_made(answers[each]))
        return self._settle(answers, {of_acl(link, each, what): show(each) for each in bindings})

    def _settle(
        self, answers: Mapping[K, BrokerError | None], asked: Mapping[Change, str]
    ) -> list[Done]:
        errors: dict[object, BrokerError | None] = dict(answers.items())
        done: list[Done] = []
        for change, detail in asked.items():
            error = errors.get(change.acl or change.target)
            if error is None:
                self._refused.pop(change, None)
                self._unseen.discard(change)
                done.append(Done(change, detail))
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._refuse(change, self._text(change, error), for_now=_ends_by_itself(error.code))
            elif change in self._unseen:
                self._refuse(change, self._why_unseen(change))
            else:
                self._refused.pop(change, None)  # the next look says what it is, if it may see it
                self._unseen.add(change)
        return done

    def _text(self, change: Change, error: BrokerError) -> str:
        if error.code not in DENIED:
            return str(error)
        resource = f"Topic:{change.target}" if change.topic else "Cluster"
        return f"{self._may_not(OPERATIONS[change.kind], resource)}. {HOW_TO_GRANT}"

    def _why_unseen(self, change: Change) -> str:
        """Metadata of all topics leaves out, without a word, what we may not describe."""
        text = self._may_not("DESCRIBE", f"Topic:{change.target}")
        return f"{text} (or it is being deleted): it is there and not shown. {HOW_TO_GRANT}"

    def _may_not(self, operation: str, resource: str) -> str:
        settings = self._cluster.settings
        return may_not(settings.security.principal, operation, resource, settings.alias)

    def _refuse(self, change: Change, text: str, *, for_now: bool = False) -> None:
        refusal = self._refused.setdefault(change, _Refusal(""))
        refusal.text = text
        longest = self._settings.retry_longest_s
        soon = for_now and refusal.failures < FOR_NOW
        pause = min(2.0 ** min(refusal.failures, 16), longest, FOR_NOW_S if soon else longest)
        refusal.failures += 1
        refusal.retry_at = self._clock.monotonic() + pause * self._dice.uniform(0.8, 1.2)


def _first(
    parts: Iterable[T], records: Callable[[T], int], most: int | None = None
) -> tuple[T, ...]:
    """What the first request takes of them."""
    return next(in_requests(parts, records, most), ())


def _ends_by_itself(code: ErrorCode) -> bool:
    """Brokers that are down count for no replica (StripedReplicaPlacer): until they are back."""
    return code.retriable or code is ErrorCode.INVALID_REPLICATION_FACTOR


def _is_surely_not_made(error: BrokerError | None) -> bool:
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    return error is not None and not error.retriable and error.code is not unknown


def _altered(edits: Sequence[ConfigEdit]) -> list[ConfigChange]:
    return [
        ConfigChange(edit.name, AlterOp.DELETE)
        if edit.new is None
        else ConfigChange(edit.name, AlterOp.SET, edit.new)
        for edit in edits
    ]
