"""Groups of both sides of a link, asked when somebody looks; answers are kept for two seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.group_members import GroupDescription, describe_groups
from mirrorfleet.kafka.groups import GroupOffsets, fetch_offsets, list_groups
from mirrorfleet.mapping.last_checkpoints import starts_of
from mirrorfleet.mapping.live import sides_seen
from mirrorfleet.offsets.floors import Seen
from mirrorfleet.offsets.homes import entries_of
from mirrorfleet.views.groups import GroupFacts

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.each import Results
    from mirrorfleet.offsets.copies import Copies

KEPT_S: Final = 2.0
_MOST_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class _Kept:
    facts: GroupFacts
    until: float


class GroupAsker:
    """Both clusters of one link."""

    def __init__(self, source: Cluster, target: Cluster, clock: Clock, deadline_s: float) -> None:
        self._source, self._target = source, target
        self._clock = clock
        self._deadline_s = deadline_s
        self._kept: dict[tuple[str, ...], _Kept] = {}

    async def page(
        self, choose: Callable[[Mapping[str, str]], Sequence[str]], copies: Copies
    ) -> GroupFacts:
        """The states of all groups, and offsets of those that `choose` takes from the source's.

        Of `copies` those are looked for on both sides that these groups have read.

        Raises: errors of both clusters; a group that one does not answer for is in `refused`.
        """
        states = await self._cached((), self._states)
        names = tuple(choose(states.source_states))

        async def ask() -> GroupFacts:
            return await self._with_offsets(states, names, copies)

        return await self._cached(("page", *names), ask)

    async def group(self, name: str, copies: Copies) -> GroupFacts:
        """One group with its members, as far as they are told; raises as `page`."""

        async def ask() -> GroupFacts:
            states = await self._cached((), self._states)
            facts = await self._with_offsets(states, (name,), copies)
            at_source = await describe_groups(self._source, [name], deadline_s=self._deadline_s)
            at_target = await describe_groups(self._target, [name], deadline_s=self._deadline_s)
            return replace(
                facts,
                source_members=_members(at_source[name]),
                target_members=_members(at_target[name]),
            )

        return await self._cached(("group", name), ask)

    async def _cached(
        self, key: tuple[str, ...], ask: Callable[[], Awaitable[GroupFacts]]
    ) -> GroupFacts:
        known = self._kept.get(key)
        if known is not None and self._clock.monotonic() < known.until:
            return known.facts
        facts = await ask()
        self._kept.pop(key, None)
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = _Kept(facts, self._clock.monotonic() + KEPT_S)
        return facts

    async def _states(self) -> GroupFacts:
        here = await list_groups(self._source, deadline_s=self._deadline_s)
        there = await list_groups(self._target, any_protocol=True, deadline_s=self._deadline_s)
        return GroupFacts(
            source_states={name: str(one.state) for name, one in here.items()},
            target_states={name: str(one.state) for name, one in there.items()},
        )

    async def _with_offsets(
        self, states: GroupFacts, names: Sequence[str], copies: Copies
    ) -> GroupFacts:
        known = [name for name in names if name in states.source_states]
        mine = await fetch_offsets(self._source, known, deadline_s=self._deadline_s)
        # one that is not listed there may be hidden from us: only an answer says so
        theirs = await fetch_offsets(self._target, known, deadline_s=self._deadline_s)
        at_source = _answered(mine)
        wanted = entries_of(at_source.values(), copies)
        sides = await sides_seen(self._source, self._target, wanted)
        there = {one.target for one in wanted if sides[one.identity].target is Seen.THERE}
        starts = await starts_of(self._target, there) if there else {}
        return replace(
            states,
            sides=sides,
            source_offsets=at_source,
            target_offsets=_answered(theirs),
            target_starts={at: start for at, start in starts.items() if start is not None},
            refused={
                name: str(answer)
                for answers in (mine, theirs)
                for name, answer in answers.items()
                if isinstance(answer, BrokerError)
            },
        )


def _answered(answers: Results[str, GroupOffsets]) -> dict[str, GroupOffsets]:
    return {name: one for name, one in answers.items() if not isinstance(one, BrokerError)}


def _members(found: GroupDescription | BrokerError) -> list[str] | None:
    if isinstance(found, BrokerError):
        return None
    return [f"{one.client_id} at {one.host.lstrip('/')}" for one in found.members]
