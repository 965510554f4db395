"""A fleet brought in step once, by hand: what would change, and then exactly that.

    open -> preview -> (somebody agrees) -> apply -> every change looked up again

A change that was not shown is never made: when the world moved on since the preview, what is
different now is left and said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.planning.pending import Kind, PlannedChange, planned_changes, within
from mirrorfleet.planning.rules import Apply
from mirrorfleet.syncing.anew import BRIEF_S, PATIENT_S
from mirrorfleet.syncing.changes import Change
from mirrorfleet.syncing.fleet import BACK_S
from mirrorfleet.syncing.retiring import still_copied

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link
    from mirrorfleet.planning.plan import Plan
    from mirrorfleet.records.catalog import CatalogLink
    from mirrorfleet.records.topics import TopicSpec
    from mirrorfleet.syncing.fleet import FleetSync
    from mirrorfleet.syncing.retiring import Retired
    from mirrorfleet.syncing.side import Side

SETTLE_S: Final = 20.0
"""A topic made now is known to every broker, with leaders, well within this."""
_PAUSE_S: Final = 0.2


class Refused(NamedTuple):
    """A topic that does not flow as its rule wants, or a link (`topic` ""), and why."""

    link: str
    topic: str
    reason: str
    detail: str


@dataclass(slots=True)
class Preview:
    """What would change. `unreached` are links whose source did not answer or is another one, and
    requests of workers that could not be read: what these need is not known.
    """

    changes: list[PlannedChange] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    unreached: list[Refused] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What became of what was agreed; `further` was found meanwhile and left.

    `gone` is what nobody wants any more and was not made here: another process did, or what it was
    for has changed. `unreached`: as `Preview` has it.
    """

    made: list[PlannedChange]
    not_made: list[PlannedChange]
    gone: list[PlannedChange]
    further: list[PlannedChange]
    refused: list[Refused]
    unreached: list[Refused]


class Once:
    """One fleet, opened, looked at, changed, closed."""

    def __init__(self, fleet: FleetSync) -> None:
        self._fleet = fleet
        self._unreached: list[Refused] = []
        self._tried: set[Hashable] = set()
        """Keys of the changes that were asked for here."""
        self._left: set[Link] = set()
        """Links that were refused."""
        self._asked_nothing = False
        """Whether the topic of requests is new: nothing is in it."""

    async def open(self) -> None:
        """Reach both ends of every link and read the catalog; writes nothing.

        A link that is not what it was, or whose source does not answer, is left out and told.
        Raises: MirrorfleetError: no target, or no link is left.
        """
        fleet = self._fleet
        await fleet.target.open()
        await fleet.learn_defaults()
        await fleet.store.refresh()
        errors: list[MirrorfleetError] = []
        for side in fleet.sides:
            try:
                await fleet.open_source(side)
            except MirrorfleetError as error:
                errors.append(error)
                self._unreached.append(Refused(str(side.link), "", "unreachable", str(error)))
        errors += self._refused()
        if not self._reached:
            raise errors[0]
        for side in self._reached:
            fleet.give_slots(side)

    def _refused(self) -> list[RefusedError]:
        """What is wrong with links; they are left alone. Each is checked beside all the others."""
        found: list[tuple[Side, RefusedError]] = []
        for side in self._reached:
            try:
                self._fleet.check(side)
            except RefusedError as error:
                found.append((side, error))
        for side, why in found:
            self._left.add(side.link)
            self._unreached.append(Refused(str(side.link), "", "refused", str(why)))
        return [why for _, why in found]

    async def preview(self) -> Preview:
        """Look, and say what would change. Raises: MirrorfleetError."""
        fleet, found = self._fleet, Preview(unreached=list(self._unreached))
        fleet.wait_for_requests(PATIENT_S)
        missing, short = await fleet.store.wanted_topics(fleet.slots)
        self._asked_nothing |= fleet.requests_topic in {spec.name for spec in missing}
        found.changes += _control_lines(missing, short)
        found.changes += [_link_line(entry) for entry in self._missing_links()]
        found.changes += self._retired_lines()
        kept = still_copied(self._retired(), Apply.AUTO)  # whoever agrees is not `sync`
        found.refused += [Refused(str(link), "", "still-copied", why) for link, why in kept.items()]
        for side in self._reached:
            planned, refused = await self._plan(side)
            found.changes += planned_changes(side.link, planned)
            found.refused += refused
        if fleet.deaf and not self._asked_nothing:
            text = f"what workers ask for cannot be read: {fleet.deaf}"
            found.unreached.append(Refused("", "", "requests", text))
        return found

    async def apply(self, agreed: Sequence[PlannedChange]) -> Outcome:
        """Make these changes and no others; what was made is told, whatever came between.

        Raises: MirrorfleetError: a cluster does not answer, and some may be made: a preview
        afterwards shows the rest.
        """
        try:
            await self._make(agreed)
        except MirrorfleetError as error:
            with suppress(MirrorfleetError):
                outcome = await self._compare(agreed)
                outcome.refused.append(Refused("", "", "interrupted", str(error)))
                return outcome
            raise
        return await self._compare(agreed)

    async def _make(self, agreed: Sequence[PlannedChange]) -> None:
        kinds = {change.kind for change in agreed}
        store, slots = self._fleet.store, self._fleet.slots
        self._fleet.wait_for_requests(BRIEF_S)  # a view of the clusters is good for a few seconds
        await store.refresh()  # somebody took his time to agree
        if Kind.CONTROL_TOPIC in kinds:
            lines = _control_lines(*await store.wanted_topics(slots))
            self._tried |= {line.key for line in lines}
            await store.ensure_topics(slots)
        if Kind.LINK in kinds:
            missing = self._missing_links()
            self._tried |= {_link_line(entry).key for entry in missing}
            await store.publish(missing)
        retired = set(self._retired_lines()) & set(agreed)
        self._tried |= {line.key for line in retired}
        for link, one in self._retired().items():
            names = {line.what for line in retired if line.link == str(link)}
            await store.publish(each for each in one.ends if each.target_topic in names)
        for side in self._reached:
            await self._bring_in_step(side, agreed)

    @property
    def _reached(self) -> list[Side]:
        sides = (side for side in self._fleet.sides if side.link not in self._left)
        return [side for side in sides if side.is_met]

    def _missing_links(self) -> list[CatalogLink]:
        entries = map(self._fleet.give_slots, self._reached)
        return [entry for entry in entries if entry is not None]

    def _retired(self) -> dict[Link, Retired]:
        """Links that are not in the estate; a source that is away may be that of one, renamed, and
        so may one that is refused for it.
        """
        reached = self._reached
        return self._fleet.retired([side for side in self._fleet.sides if side not in reached])

    def _retired_lines(self) -> list[PlannedChange]:
        return [
            PlannedChange(str(link), Kind.STOP, topic, "the link is not in the estate")
            for link, one in self._retired().items()
            if not one.may_be
            for topic in sorted({entry.target_topic for entry in one.ends})
        ]

    async def _plan(self, side: Side) -> tuple[Plan, list[Refused]]:
        source = await self._fleet.look(side)
        if side.watch.unconfirmed:  # another fleet may be about to say that they are copies
            await asyncio.sleep(self._fleet.settings.confirm_s)
            source = await self._fleet.look(side)
        seen = await self._fleet.plan(side, source)
        name = str(side.link)
        held = [*seen.chosen.held, *seen.plan.held, *self._fleet.changes.held(side.link)]
        refused = [Refused(name, each.topic, each.reason, each.detail) for each in held]
        if side.watch.loop_trouble:
            refused.append(Refused(name, "", "loops", side.watch.loop_trouble))
        if side.acl_trouble:
            refused.append(Refused(name, "", "acls", side.acl_trouble))
        return seen.plan, refused

    async def _bring_in_step(self, side: Side, agreed: Collection[PlannedChange]) -> None:
        """Until nothing agreed is left to try, or what was made does not settle in time."""
        fleet, tried = self._fleet, set[Change]()
        await fleet.look(side)
        clock = fleet.clock
        until = clock.monotonic() + SETTLE_S
        while True:
            await fleet.store.refresh()  # `sync` may write what nobody had to agree to
            source = await fleet.renewed(side)  # a step may take long
            part = within(side.link, (await fleet.plan(side, source)).plan, agreed)
            now = replace(part, acls_later=())
            self._tried |= {change.key for change in planned_changes(side.link, now)}
            await fleet.publish(side, part)
            part = replace(part, publish=())
            step = fleet.changes.next_step(side.link, part, tried)
            if step.changes_target:
                await fleet.make(side, step)
                until = clock.monotonic() + SETTLE_S  # many changes are many requests
            elif self._is_settled(side, part, agreed):
                return
            elif clock.monotonic() >= until + (BACK_S if part.acls_later else 0.0):
                fleet.changes.hold_unseen(part)
                return
            else:
                await asyncio.sleep(_PAUSE_S)

    def _is_settled(self, side: Side, part: Plan, agreed: Iterable[PlannedChange]) -> bool:
        """Whether all is made but what was refused; a topic made now is copied a little later."""
        refused = self._fleet.changes.refused(side.link)
        left = [change for change in planned_changes(side.link, part) if change.what not in refused]
        waiting = [
            change
            for change in agreed
            if change.link == str(side.link) and change.what not in refused
        ]
        return not left and all(self._copied(waiting))

    def _copied(self, changes: Iterable[PlannedChange]) -> Iterator[bool]:
        """Whether the catalog has what each wants there; other kinds are not its matter."""
        copied = {claim.target_topic for claim in self._fleet.store.book.claims()}
        return (each.kind is not Kind.COPY or each.what in copied for each in changes)

    async def _compare(self, agreed: Sequence[PlannedChange]) -> Outcome:
        """What a second look says: what it would still change was not made."""
        after = await self.preview()
        left = {change.key for change in after.changes}
        asked = {change.key for change in agreed}
        copied = zip(agreed, self._copied(agreed), strict=True)
        done = [each for each, there in copied if there and each.key not in left]
        found = set(done)
        return Outcome(
            made=[change for change in done if change.key in self._tried],
            not_made=[change for change in agreed if change not in found],
            gone=[change for change in done if change.key not in self._tried],
            further=[change for change in after.changes if change.key not in asked],
            refused=after.refused,
            unreached=after.unreached,
        )


def _control_lines(missing: Iterable[TopicSpec], short: Mapping[str, int]) -> list[PlannedChange]:
    made = [
        PlannedChange("", Kind.CONTROL_TOPIC, spec.name, f"{spec.partitions} partitions")
        for spec in missing
    ]
    grown = [
        PlannedChange("", Kind.CONTROL_TOPIC, name, f"grows to {count} partitions")
        for name, count in short.items()
    ]
    return [*made, *grown]


def _link_line(entry: CatalogLink) -> PlannedChange:
    text = f"slots {entry.slots[0]} to {entry.slots[-1]}, source cluster {entry.source_cluster}"
    return PlannedChange(str(entry.link), Kind.LINK, str(entry.link), text)
