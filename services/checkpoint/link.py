"""One link: its groups are looked at, checkpoints written, and groups of the source given offsets.

    source groups and offsets, what we wrote before -> target groups, offsets, log starts
    -> checkpoints, each with what is about to be written -> the offsets, if nobody moved them

The checkpoint goes first: after a crash in between we know the offset on the target as ours.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, NotOursError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.groups import OF_PARTITIONS, commit_offsets, fetch_offsets, list_groups
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets, told
from mirrorfleet.mapping.before_copies import BeforeCopies
from mirrorfleet.mapping.groups_seen import GroupsSeen
from mirrorfleet.mapping.live import side_words, sides_seen, targets_seen
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import (
    Activity,
    Decision,
    GroupView,
    are_same,
    checkpoints_of,
    cut_off,
    decide,
    held_at_parting,
    own_progress,
    settled,
    wanted_groups,
)
from mirrorfleet.offsets.keeping import (
    Starts,
    due_again,
    kept,
    placeless,
    placeless_words,
    untold,
)
from mirrorfleet.offsets.late import LateCopies, unset_words
from mirrorfleet.offsets.looks import LinkReport
from mirrorfleet.offsets.resting import Rest, own_places, rested
from mirrorfleet.records import checkpoint, heartbeat, offset_sync
from mirrorfleet.records.topics import mm2_topics, replicas_on
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.wire.records import NO_TIME
from services.checkpoint.answers import is_silence, refusal
from services.checkpoint.gone import GoneGroups

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.groups import GroupOffsets
    from mirrorfleet.kafka.offsets import ListedOffsets
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.records.checkpoint import Checkpoint
    from mirrorfleet.records.offset_sync import OffsetSync
    from services.checkpoint.settings import CheckpointSettings

_SILENT_S: Final = 1.0
"""For target partitions that did not answer at the last look: all groups would wait for them."""
_THERE: Final = Sides(Seen.THERE, Seen.THERE)
_PART: Final = 100
"""Groups that are checked and set at a time: who moves in between is overwritten."""
_log = logger(__name__)


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
        self.is_ours: Callable[[], Awaitable[bool]] | None = None
        """Whether this process is the active one; asked before what the next one goes by."""
        self._source, self._target = source, target
        self._settings, self._clock = settings, clock
        self._writer = ControlWriter(target)
        self._checkpoints = TopicPartition(checkpoint.topic_name(flow.link.source), 0)
        self._syncs_at = TopicPartition(offset_sync.topic_name(flow.link.source), 0)
        self._ours = WrittenTail(target, self._checkpoints.topic)
        self._echoes = WrittenTail(source, checkpoint.topic_name(flow.link.target))
        self._gone = GoneGroups(source, target)
        self._before = BeforeCopies(target)
        self._idle_since: dict[str, Rest] = {}
        self._rewritten_at: dict[tuple[str, TopicPartition], float] = {}
        self._silent: set[TopicPartition] = set()
        self._away: dict[str, set[str]] = {}
        self.shut_out: set[str] = set()
        self._synced: dict[TopicPartition, OffsetSync] = {}

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
        self.shut_out = set()
        self.report = LinkReport(self.flow.link, checkpoints=self.report.checkpoints)

    async def prepare(self) -> None:
        """Make MM2's topics where they are missing. Raises: BrokerError naming the topic."""
        factor = replicas_on((await self._target.metadata(None)).members)
        specs = mm2_topics(self.flow.link.source, replication_factor=factor)
        wanted = [NewTopic.of(spec) for spec in specs if spec.name != heartbeat.TOPIC]
        for name, error in (await create_topics(self._target, wanted)).items():
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error
            if error is None and name == self._syncs_at.topic:
                self._synced.clear()  # a topic of before may have been deleted with all of them

    async def look(self, copies: Copies) -> None:
        """One look at all groups. Raises: errors of both clusters; what was done stays done."""
        now = self._clock.monotonic()
        self.report.refused = {}
        await self._ours.refresh()
        await self._echoes.refresh()
        seen = await self._see()
        starts = await self._starts(copies, seen)
        empty = await self._empty(copies, starts)
        late = LateCopies(copies, starts)
        points: list[Checkpoint] = []
        decisions: dict[str, Decision] = {}
        for group, committed in seen.committed.items():
            own = own_progress(committed, self._echoes.of(group))
            mine = checkpoints_of(group, own, copies, self.flow, starts=starts, empty=empty)
            mine = held_at_parting(mine, self._ours.last, copies, starts)
            rest = self._rest(group, own, copies, seen, now)
            if mine:
                view = self._view(group, tuple(mine), rest, seen, now)
                cut = cut_off(mine, view.offsets, self._ours.last, copies, starts)
                view = replace(view, cut=cut, late=await self._before.late(late, mine))
                decisions[group] = decide(view, home_again_s=self._settings.home_again_s)
                points += decisions[group].checkpoints
                if unset := decisions[group].unset:
                    self.report.refused[group] = unset_words(unset)
            await asyncio.sleep(0)  # many groups: the lease is kept up in between
        await self._write_checkpoints(points)
        await self._commit(decisions, seen, now)
        await self._keep_placeless(points, copies, starts, seen, now)
        if away := set(wanted_groups(self.flow, self._ours.groups)) - seen.committed.keys():
            await self.keep(copies, away)
        self._tell_refused()
        await self._write_syncs(copies)
        self.report.decisions = decisions
        self.report.looked_at = self._clock.monotonic()
        await self._let_go(seen)

    async def keep(self, copies: Copies, only: AbstractSet[str] | None = None) -> None:
        """Where looks fail, as while the source is away, or it tells nothing of groups (`only`):
        what is ours on the target is set again in time, before it forgets that, and where it did,
        and never below where its log begins. Raises: errors of the target.
        """
        now, deadline_s = self._clock.monotonic(), self._settings.request_s
        await self._ours.refresh()
        mine = set(wanted_groups(self.flow, self._ours.groups)) if only is None else only
        points = [p for p in self._ours.newest if p.group in mine]
        if not points or (self.is_ours is not None and not await self.is_ours()):
            return
        there = await list_groups(self._target, any_protocol=True, deadline_s=deadline_s)
        offsets = await self._places(self._target, {point.group for point in points})
        wanted = {entry.target for entry in copies} & {point.partition for point in points}
        starts = told(await self._begins(wanted))
        # asked once offsets and starts are known: so they are of the same topics
        live = await targets_seen(self._target, copies)
        same = {e.target: starts.get(e.target, 0) for e in copies if live[e.identity] is Seen.THERE}
        await self._set_again(points, copies, same, GroupsSeen({}, {}, there, offsets), now)

    async def _keep_placeless(
        self, points: list[Checkpoint], copies: Copies, starts: Starts, seen: GroupsSeen, now: float
    ) -> None:
        """What the look has no place for is told, and as in `keep` set again in time."""
        bare = placeless(self._ours.newest, points, seen.committed, self._echoes.of, copies)
        stands = kept(bare, seen.idle, self._ours.of, starts, copies, self.flow)
        for group, one in stands.items():
            self.report.refused.setdefault(group, placeless_words(one.commits))
        await self._set_again(bare, copies, starts, seen, now)

    async def _set_again(
        self, points: list[Checkpoint], copies: Copies, starts: Starts, seen: GroupsSeen, now: float
    ) -> None:
        """The source did not tell these now: so what is written of them has no time."""
        due = due_again(points, set(self._old(points, now)), seen.offsets, starts)
        decisions = kept(due, seen.idle, self._ours.of, starts, copies, self.flow)
        await self._write_checkpoints(untold(decisions, self._ours.last), NO_TIME)
        await self._commit(decisions, seen, now)

    def _old(self, points: Iterable[Checkpoint], now: float) -> list[Checkpoint]:
        """Those whose offset was not set for so long that it has to be again."""
        at, every_s = self._rewritten_at, self._settings.rewrite_s
        return [p for p in points if now - at.get((p.group, p.partition), -math.inf) >= every_s]

    async def _see(self) -> GroupsSeen:
        deadline_s = self._settings.request_s
        groups = await list_groups(self._source, deadline_s=deadline_s)
        # a group that is not listed may be hidden from us: only an answer says that it has nothing
        known = wanted_groups(self.flow, groups.keys() | self._ours.groups)
        committed = await self._places(self._source, known)
        # whoever has members there is at work, also those of Connect
        there = await list_groups(self._target, any_protocol=True, deadline_s=deadline_s)
        offsets = await self._places(self._target, committed)
        usable = {group: found for group, found in committed.items() if group in offsets}
        return GroupsSeen(groups, usable, there, offsets)

    async def _places(self, cluster: Cluster, groups: Iterable[str]) -> dict[str, GroupOffsets]:
        """Whose coordinator was away at the last look is asked apart: all groups would wait."""
        deadline_s, away = self._settings.request_s, self._away.get(cluster.name, set())
        wanted = set(groups)
        answers = await fetch_offsets(cluster, sorted(wanted - away), deadline_s=deadline_s)
        if late := sorted(wanted & away):
            answers |= await fetch_offsets(cluster, late, once=True, deadline_s=deadline_s)
        self._away[cluster.name] = (away - wanted) | {
            group
            for group, answer in answers.items()
            if isinstance(answer, BrokerError) and answer.retriable
        }
        return self._answered(answers)

    def _answered(
        self, answers: Mapping[str, GroupOffsets | BrokerError]
    ) -> dict[str, GroupOffsets]:
        errors = {name: str(one) for name, one in answers.items() if isinstance(one, BrokerError)}
        self.report.refused |= errors
        return {name: one for name, one in answers.items() if not isinstance(one, BrokerError)}

    async def _starts(self, copies: Copies, seen: GroupsSeen) -> dict[TopicPartition, int]:
        entries = (copies.by_source(at) for one in seen.committed.values() for at in one)
        targets = {entry.target: entry for entry in entries if entry is not None}
        listed = await self._begins(targets.keys())
        # asked once offsets and starts are known: so they are of the same topics
        live = await sides_seen(self._source, self._target, targets.values())
        for at, entry in targets.items():
            said = refusal(listed.get(at)) or " ".join(side_words(entry, live[entry.identity]))
            if said.strip():
                self.report.refused[f"topic {entry.target_topic}"] = said.strip()
        starts = told(listed)
        return {at: start for at, start in starts.items() if live[targets[at].identity] == _THERE}

    async def _begins(self, wanted: AbstractSet[TopicPartition]) -> ListedOffsets:
        """Where logs of the target begin."""
        silent, deadline_s = wanted & self._silent, self._settings.request_s
        first, apart = (dict.fromkeys(some, EARLIEST) for some in (wanted - silent, silent))
        listed = await list_offsets(self._target, first, deadline_s=deadline_s)
        try:
            deadline_s = min(deadline_s, _SILENT_S)
            listed |= await list_offsets(self._target, apart, deadline_s=deadline_s)
        except DeadlineError:
            _log.debug("still silent", extra=fields(link=str(self.flow.link), count=len(silent)))
        self._silent = (self._silent - wanted) | (wanted - told(listed).keys())
        return listed

    async def _empty(self, copies: Copies, starts: Starts) -> frozenset[TopicPartition]:
        """Copies that have no record of anybody: one that the map lacks may be only late there."""
        wanted = {at: LATEST for at in starts if copies.is_new(at)}
        ends = await list_offsets(self._target, wanted, deadline_s=self._settings.request_s)
        return frozenset(at for at, end in told(ends).items() if end == starts[at])

    def _rest(
        self, group: str, own: GroupOffsets, copies: Copies, seen: GroupsSeen, now: float
    ) -> Rest | None:
        """None while the group has members on the target, or nothing of its own there."""
        before = self._idle_since.pop(group, None)
        places = own_places(seen.offsets.get(group, {}), self._ours.of(group), copies)
        if seen.activity(group) is Activity.ACTIVE or not places:
            return None
        rest = self._idle_since[group] = rested(
            before, now, target=places, source=seen.committed[group], own=own, copies=copies
        )
        return rest

    def _view(
        self,
        group: str,
        points: tuple[Checkpoint, ...],
        rest: Rest | None,
        seen: GroupsSeen,
        now: float,
    ) -> GroupView:
        is_at_work = rest is not None and rest.is_at_work_at_source
        return GroupView(
            source=Activity.ACTIVE if is_at_work else seen.at_home(group),
            target=seen.activity(group),
            checkpoints=points,
            offsets=seen.offsets.get(group, {}),
            written=self._ours.of(group),
            idle_s=0.0 if rest is None else now - rest.since,
            rewrite=frozenset(point.partition for point in self._old(points, now)),
        )

    async def _write_checkpoints(self, points: list[Checkpoint], at_ms: int | None = None) -> None:
        changed = [point for point in points if not self._ours.has(point)]
        if changed and self.is_ours is not None and not await self.is_ours():
            raise NotOursError(f"{self.flow.link}: another process is active, or nobody can say.")
        if changed:
            entries = [checkpoint.encode(point) for point in changed]
            at_ms = self._clock.now_ms() if at_ms is None else at_ms
            await self._writer.write(self._checkpoints, entries, at_ms)
            self.report.checkpoints += len(changed)

    async def _commit(
        self, decisions: Mapping[str, Decision], seen: GroupsSeen, now: float
    ) -> None:
        """Set the offsets, a part of the groups after the other. What a broker that does not answer
        leaves is for the next look: each part would wait for it.
        """
        due = [group for group, one in decisions.items() if one.commits]
        for first in range(0, len(due), _PART):
            part = {group: decisions[group] for group in due[first : first + _PART]}
            if not await self._commit_part(part, seen, now):
                return

    async def _commit_part(self, due: Mapping[str, Decision], seen: GroupsSeen, now: float) -> bool:
        """Set offsets, unless somebody moved them since we looked. False: a broker was silent."""
        limit_s = self._settings.request_s
        found = await fetch_offsets(self._target, due, once=True, stable=True, deadline_s=limit_s)
        again = self._answered(found)
        still = [
            group
            for group, offsets in again.items()
            if are_same(due[group].checkpoints, seen.offsets[group], offsets)
        ]
        self.commits["raced"] += len(again) - len(still)
        self.commits["refused"] += len(due) - len(again)
        wanted = {group: due[group].places for group in still}
        answers = await commit_offsets(self._target, wanted, once=True, deadline_s=limit_s)
        points: list[Checkpoint] = []
        for group, error in answers.items():
            commits = due[group].commits
            if error is None or error.code in OF_PARTITIONS:  # what is not set is due by its offset
                self._rewritten_at |= {(group, point.partition): now for point in commits}
            if error is None:
                self.commits["set"] += 1
                points += settled(commits)
            elif error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.commits["active"] += 1
            else:
                self.commits["refused"] += 1
                self.report.refused[group] = str(error)
        await self._write_checkpoints(points)
        return not any(is_silence(one) for one in (*found.values(), *answers.values()))

    async def _let_go(self, seen: GroupsSeen) -> None:
        """Of groups that both sides have lost. The topic keeps what was written."""
        known = self._ours.groups | self._echoes.groups | self._idle_since.keys()
        listed = seen.groups.keys() | seen.there.keys()
        gone = await self._gone.among(known, listed, deadline_s=self._settings.request_s)
        if not gone:
            return
        self._ours.forget(gone)
        self._echoes.forget(gone)
        for group in gone:
            self._idle_since.pop(group, None)
        self._rewritten_at = {at: t for at, t in self._rewritten_at.items() if at[0] not in gone}

    def _tell_refused(self) -> None:
        """Log what was not refused before."""
        refused = self.report.refused
        new = [one for one in refused if one not in self.shut_out]
        if new:
            some = {one: refused[one] for one in new[:3]}
            _log.warning(
                "groups or topics refused", extra=fields(link=str(self.flow.link), error=str(some))
            )
        self.shut_out = set(refused)

    async def _write_syncs(self, copies: Copies) -> None:
        """MM2's offset-syncs, from segments: only what is committed is in them."""
        changed = [one for one in copies.syncs() if self._synced.get(one.partition) != one]
        if changed:
            entries = [offset_sync.encode(one) for one in changed]
            await self._writer.write(self._syncs_at, entries, self._clock.now_ms())
            self._synced.update((one.partition, one) for one in changed)
