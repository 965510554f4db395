"""Changing topics on the target: one refused topic never holds up another.

A refusal is remembered per link, topic and kind of change, shown as held, and tried again later
and later. Success of the same change ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import may_not
from mirrorfleet.kafka.admin import (
    AlterOp,
    ConfigChange,
    NewTopic,
    create_partitions,
    create_topics,
    incremental_alter_configs,
)
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.topics import Held, Reason

if TYPE_CHECKING:
    from mirrorfleet.core.errors import BrokerError
    from mirrorfleet.core.ids import Link
    from mirrorfleet.core.ports import Clock, Dice
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.policy.claims import Claim
    from services.sync.settings import SyncSettings

Answers = Mapping[str, "BrokerError | None"]


class ChangeKind(StrEnum):
    """What was done to a target topic; the word of the metric."""

    CREATED = "created"
    GROWN = "grown"
    ALTERED = "altered"


_OPERATIONS: Final = {
    ChangeKind.CREATED: "CREATE",
    ChangeKind.GROWN: "ALTER",
    ChangeKind.ALTERED: "ALTER_CONFIGS",
}
"""The right that each change needs (Kafka's table of operations by API)."""


class Change(NamedTuple):
    """One change of one target topic."""

    claim: Claim
    kind: ChangeKind


class Done(NamedTuple):
    """A change that the target has made, and what to say about it."""

    change: Change
    detail: str


@dataclass(slots=True)
class _Refusal:
    text: str
    failures: int = 0
    retry_at: float = 0.0


class TopicChanges:
    """Makes changes on one target, and remembers what it refused."""

    def __init__(self, cluster: Cluster, settings: SyncSettings, clock: Clock, dice: Dice) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._dice = dice
        self._refused: dict[Change, _Refusal] = {}

    def next_step(self, plan: Plan, tried: set[Change]) -> Plan:
        """What of `plan` is due and not `tried`, no more than one request takes; marks it tried."""

        def due(claim: Claim, kind: ChangeKind) -> bool:
            refusal = self._refused.get(Change(claim, kind))
            waits = refusal is not None and refusal.retry_at > self._clock.monotonic()
            return not waits and Change(claim, kind) not in tried

        creations = [each for each in plan.create if due(each.claim, ChangeKind.CREATED)]
        step = Plan(
            create=tuple(creations[: self._settings.topics_a_request]),
            grow=tuple(each for each in plan.grow if due(each.claim, ChangeKind.GROWN)),
            alter=tuple(each for each in plan.alter if due(each.claim, ChangeKind.ALTERED)),
        )
        tried.update(Change(each.claim, ChangeKind.CREATED) for each in step.create)
        tried.update(Change(each.claim, ChangeKind.GROWN) for each in step.grow)
        tried.update(Change(each.claim, ChangeKind.ALTERED) for each in step.alter)
        return step

    async def make(self, step: Plan) -> list[Done]:
        """Make the changes; refusals are kept for `held`.

        Raises:
            MirrorfleetError: the target does not answer at all.
        """
        return [*await self._create(step), *await self._grow(step), *await self._alter(step)]

    def held(self, link: Link) -> tuple[Held, ...]:
        """The topics of a link that the target refuses now."""
        return tuple(
            Held(change.claim.source_topic, Reason.REFUSED, refusal.text)
            for change, refusal in self._refused.items()
            if change.claim.link == link
        )

    def forget(self, link: Link, planned: Plan) -> None:
        """Drop refusals of changes that are no longer wanted."""
        wanted = {
            *(Change(each.claim, ChangeKind.CREATED) for each in planned.create),
            *(Change(each.claim, ChangeKind.GROWN) for each in planned.grow),
            *(Change(each.claim, ChangeKind.ALTERED) for each in planned.alter),
        }
        for change in [one for one in self._refused if one.claim.link == link]:
            if change not in wanted:
                del self._refused[change]

    async def _create(self, step: Plan) -> list[Done]:
        if not step.create:
            return []
        topics = [
            NewTopic(
                name=each.spec.name,
                partitions=each.spec.partitions,
                replication_factor=each.spec.replication_factor,
                configs=each.spec.configs,
            )
            for each in step.create
        ]
        answers = await create_topics(self._cluster, topics, deadline_s=self._settings.change_s)
        partitions = {each.claim: each.spec.partitions for each in step.create}
        return self._settle(
            ChangeKind.CREATED,
            partitions,
            answers,
            lambda claim: f"{claim.target_topic} with {partitions[claim]} partitions",
        )

    async def _grow(self, step: Plan) -> list[Done]:
        if not step.grow:
            return []
        counts = {each.claim.target_topic: each.partitions for each in step.grow}
        answers = await create_partitions(self._cluster, counts, deadline_s=self._settings.change_s)
        return self._settle(
            ChangeKind.GROWN,
            [each.claim for each in step.grow],
            answers,
            lambda claim: f"{claim.target_topic} to {counts[claim.target_topic]} partitions",
        )

    async def _alter(self, step: Plan) -> list[Done]:
        if not step.alter:
            return []
        configs = {each.claim.target_topic: each.configs for each in step.alter}
        changes: dict[str, Sequence[ConfigChange]] = {
            topic: [ConfigChange(name, AlterOp.SET, value) for name, value in values.items()]
            for topic, values in configs.items()
        }
        answers = await incremental_alter_configs(
            self._cluster, changes, deadline_s=self._settings.change_s
        )
        return self._settle(
            ChangeKind.ALTERED,
            [each.claim for each in step.alter],
            answers,
            lambda claim: f"{claim.target_topic}: {_listed(configs[claim.target_topic])}",
        )

    def _settle(
        self,
        kind: ChangeKind,
        claims: Iterable[Claim],
        answers: Answers,
        detail: Callable[[Claim], str],
    ) -> list[Done]:
        done: list[Done] = []
        for claim in claims:
            change = Change(claim, kind)
            error = answers.get(claim.target_topic)
            if error is None:
                self._refused.pop(change, None)
                done.append(Done(change, detail(claim)))
            elif error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                self._refused.pop(change, None)  # the next look says what it is
            else:
                self._refuse(change, self._text(change, error))
        return done

    def _text(self, change: Change, error: BrokerError) -> str:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return str(error)
        who, alias = self._cluster.settings.security.principal, self._cluster.settings.alias
        resource = f"Topic:{change.claim.target_topic}"
        text = may_not(who, _OPERATIONS[change.kind], resource, alias)
        return f"{text}. `mirrorfleet acls` prints what is needed."

    def _refuse(self, change: Change, text: str) -> None:
        refusal = self._refused.setdefault(change, _Refusal(""))
        refusal.text = text
        pause = min(self._settings.retry_longest_s, 2.0**refusal.failures)
        refusal.failures = min(refusal.failures + 1, 16)
        refusal.retry_at = self._clock.monotonic() + pause * self._dice.uniform(0.8, 1.2)


def _listed(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
