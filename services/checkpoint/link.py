"""One link: its groups are looked at, checkpoints written, and groups of the source given offsets.

    source groups and offsets, what we wrote before -> target groups, offsets, log starts
    -> checkpoints, each with what is about to be written -> the offsets, if nobody moved them

The checkpoint goes first: after a crash in between we know the offset on the target as ours.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import Link, TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.groups import (
    GroupOffsets,
    GroupState,
    ListedGroup,
    commit_offsets,
    fetch_offsets,
    list_groups,
)
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.offsets.copies import Copies, target_of
from mirrorfleet.offsets.homes import (
    Activity,
    Decision,
    GroupOffset,
    GroupView,
    Home,
    checkpoints_of,
    decide,
    own_progress,
    wanted_groups,
)
from mirrorfleet.records import checkpoint, heartbeat, offset_sync
from mirrorfleet.records.topics import mm2_topics
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.records.checkpoint import Checkpoint
    from services.checkpoint.settings import CheckpointSettings

FULL_REPLICATION: Final = 3
_log = logger(__name__)


@dataclass(slots=True)
class LinkReport:
    """The last look at a link. `looked_at` is monotonic, None before the first one in full."""

    link: Link
    decisions: dict[str, Decision] = field(default_factory=dict)
    checkpoints: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Groups that one of the clusters did not answer for, or did not take, and why."""
    looked_at: float | None = None
    trouble: str = ""

    def homes(self) -> Mapping[Home, int]:
        """Groups by home."""
        return Tally(decision.home for decision in self.decisions.values())


@dataclass(frozen=True, slots=True)
class _Seen:
    """Both sides at one look."""

    groups: Mapping[str, ListedGroup]
    committed: Mapping[str, GroupOffsets]
    there: Mapping[str, ListedGroup]
    offsets: Mapping[str, GroupOffsets]


class LinkGroups:
    """The groups of one link; one look at a time."""

    def __init__(
        self,
        flow: Flow,
        source: Cluster,
        target: Cluster,
        settings: CheckpointSettings,
        clock: Clock,
    ) -> None:
        self.flow = flow
        self.report = LinkReport(flow.link)
        self.commits: Tally[str] = Tally()
        self._source, self._target = source, target
        self._settings, self._clock = settings, clock
        self._writer = ControlWriter(target)
        self._checkpoints = TopicPartition(checkpoint.topic_name(flow.link.source), 0)
        self._syncs_at = TopicPartition(offset_sync.topic_name(flow.link.source), 0)
        self._ours = WrittenTail(target, self._checkpoints.topic)
        self._echoes = WrittenTail(source, checkpoint.topic_name(flow.link.target))
        self._idle_since: dict[str, float] = {}
        self._rewritten_at: dict[str, float] = {}
        self._synced: dict[TopicPartition, int] = {}

    def close(self) -> None:
        """Close the connections of our own."""
        self._writer.close()
        self._ours.close()
        self._echoes.close()

    def forget(self) -> None:
        """Know of no look; what was written and is not counted yet is kept.

        Nor since when a group is idle: nobody looked meanwhile, and it may have been at work.
        """
        self._idle_since.clear()
        self.report = LinkReport(self.flow.link, checkpoints=self.report.checkpoints)

    async def prepare(self) -> None:
        """Make MM2's topics where they are missing. Raises: BrokerError naming the topic."""
        brokers = (await self._target.metadata(())).brokers
        factor = min(FULL_REPLICATION, len(brokers))
        specs = mm2_topics(self.flow.link.source, replication_factor=factor)
        wanted = [
            NewTopic(
                name=spec.name,
                partitions=spec.partitions,
                replication_factor=spec.replication_factor,
                configs=spec.configs,
            )
            for spec in specs
            if spec.name != heartbeat.TOPIC
        ]
        for error in (await create_topics(self._target, wanted)).values():
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

    async def look(self, copies: Copies) -> None:
        """One look at all groups. Raises: errors of both clusters; what was done stays done."""
        now = self._clock.monotonic()
        self.report.refused = {}
        await self._ours.refresh()
        await self._echoes.refresh()
        seen = await self._see()
        starts = await self._starts(copies, seen)
        points: list[Checkpoint] = []
        decisions: dict[str, Decision] = {}
        for group, committed in seen.committed.items():
            own = own_progress(committed, self._echoes.of(group))
            mine = checkpoints_of(group, own, copies, self.flow, starts=starts)
            if mine:
                view = self._view(group, tuple(mine), seen, now)
                decisions[group] = decide(view, home_again_s=self._settings.home_again_s)
                points += self._with_written(mine, decisions[group])
        await self._write_checkpoints(points)
        await self._commit(decisions, seen, now)
        await self._write_syncs(copies)
        self.report.decisions = decisions
        self.report.looked_at = self._clock.monotonic()

    async def _see(self) -> _Seen:
        deadline_s = self._settings.request_s
        groups = await list_groups(self._source, deadline_s=deadline_s)
        wanted = wanted_groups(self.flow, groups)
        committed = await fetch_offsets(self._source, wanted, deadline_s=deadline_s)
        there = await list_groups(self._target, deadline_s=deadline_s)
        known = [group for group in wanted if group in there]
        offsets = await fetch_offsets(self._target, known, deadline_s=deadline_s)
        good = self._answered(offsets)
        usable = {
            group: found
            for group, found in self._answered(committed).items()
            if group in good or group not in there
        }
        return _Seen(groups, usable, there, good)

    def _answered(
        self, answers: Mapping[str, GroupOffsets | BrokerError]
    ) -> dict[str, GroupOffsets]:
        found: dict[str, GroupOffsets] = {}
        for group, answer in answers.items():
            if isinstance(answer, BrokerError):
                self.report.refused[group] = str(answer)
            else:
                found[group] = answer
        return found

    async def _starts(self, copies: Copies, seen: _Seen) -> dict[TopicPartition, int]:
        entries = (copies.by_source(at) for one in seen.committed.values() for at in one)
        wanted = {target_of(entry) for entry in entries if entry is not None}
        listed = await list_offsets(
            self._target, dict.fromkeys(wanted, EARLIEST), deadline_s=self._settings.request_s
        )
        return {
            at: found.offset for at, found in listed.items() if not isinstance(found, BrokerError)
        }

    def _view(
        self, group: str, points: tuple[Checkpoint, ...], seen: _Seen, now: float
    ) -> GroupView:
        listed = seen.there.get(group)
        activity = (listed.state if listed else GroupState.DEAD).activity
        if activity is Activity.ACTIVE:
            self._idle_since.pop(group, None)
        since = self._idle_since.setdefault(group, now) if activity is Activity.IDLE else now
        rewritten = self._rewritten_at.get(group)
        return GroupView(
            source=seen.groups[group].state.activity,
            target=activity,
            checkpoints=points,
            offsets=seen.offsets.get(group, {}),
            written=self._ours.of(group),
            idle_s=now - since,
            rewrite=rewritten is None or now - rewritten >= self._settings.rewrite_s,
        )

    def _with_written(
        self, points: Iterable[Checkpoint], decision: Decision
    ) -> Iterable[Checkpoint]:
        commits = {point.partition: point for point in decision.commits}
        for point in points:
            before = self._ours.of(point.group).get(point.partition, ())
            yield commits.get(point.partition) or replace(point, written=before)

    async def _write_checkpoints(self, points: Iterable[Checkpoint]) -> None:
        changed = [point for point in points if self._ours.last(point) != point]
        if changed:
            entries = [checkpoint.encode(point) for point in changed]
            await self._writer.write(self._checkpoints, entries, self._clock.now_ms())
            self.report.checkpoints += len(changed)

    async def _commit(self, decisions: Mapping[str, Decision], seen: _Seen, now: float) -> None:
        """Set the offsets, unless somebody moved them since we looked."""
        due = {group: one.commits for group, one in decisions.items() if one.commits}
        if not due:
            return
        deadline_s = self._settings.request_s
        again = await fetch_offsets(self._target, due, deadline_s=deadline_s)
        still = [group for group in due if again[group] == seen.offsets.get(group, {})]
        self.commits["raced"] += len(due) - len(still)
        wanted = {
            group: {p.partition: GroupOffset(p.target, p.metadata) for p in due[group]}
            for group in still
        }
        answers = await commit_offsets(self._target, wanted, deadline_s=deadline_s)
        for group, error in answers.items():
            if error is None:
                self._rewritten_at[group] = now
                self.commits["set"] += 1
            elif error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.commits["active"] += 1
            else:
                self.commits["refused"] += 1
                self.report.refused[group] = str(error)
        if self.report.refused:
            some = dict(list(self.report.refused.items())[:3])
            _log.warning("groups refused", extra=fields(link=str(self.flow.link), error=str(some)))

    async def _write_syncs(self, copies: Copies) -> None:
        """MM2's offset-syncs, from segments: only what is committed is in them."""
        changed = [one for one in copies.syncs() if self._synced.get(one.partition) != one.source]
        if changed:
            entries = [offset_sync.encode(one) for one in changed]
            await self._writer.write(self._syncs_at, entries, self._clock.now_ms())
            self._synced.update((one.partition, one.source) for one in changed)
