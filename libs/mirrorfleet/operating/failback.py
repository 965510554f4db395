"""`failback`: groups that worked on the target go on at home, at the first record not read there.

    offsets of both sides, what checkpoint wrote -> catalog, map -> log starts, topics as they are
    -> shown, agreed to -> looked at again -> OffsetCommit on the source, a group after the other

Only groups without members on either side: one that reads on would be somewhere else in a moment,
and a coordinator takes an offset from outside for an empty group only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.kafka.groups import commit_offsets, fetch_offsets, list_groups, state_of
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, list_offsets
from mirrorfleet.mapping.asking import copies_of, groups_of
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.mapping.live import side_words, sides_seen
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.offsets.failback import (
    Place,
    left_there,
    offset_at,
    places_at_home,
    unmapped,
    unread,
)
from mirrorfleet.offsets.homes import Activity, own_progress, written_for
from mirrorfleet.records import checkpoint

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName, PartitionIdentity, TopicPartition
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.groups import GroupOffsets
    from mirrorfleet.offsets.copies import Copies
    from mirrorfleet.offsets.homes import GroupOffset
    from mirrorfleet.policy.flows import Flow

COLUMNS: Final = (
    "outcome",
    "group",
    "topic",
    "partition",
    "stood_at",
    "goes_on",
    "target_topic",
    "target_offset",
    "found",
)
LOG_START: Final = "log-start"
"""`found` where the source's log begins behind the record: what lies between is gone at home."""
_MOVED: Final = "it has moved meanwhile: say it again"
_LEAVE_OUT: Final = (
    "If that is as it should be, list {topic} under `exclude` of its rule and restart `sync`: then"
    " nobody is kept for it."
)
_LOST: Final = "it lost what was copied from it. See: mirrorfleet status"


@dataclass(frozen=True, slots=True)
class Return:
    """One group; `trouble` is why it stays where it is, "" when nothing keeps it.

    `done` are places that were set although others of the same group were refused.
    """

    group: str
    places: tuple[Place, ...] = ()
    trouble: str = ""
    done: frozenset[TopicPartition] = frozenset()

    @property
    def due(self) -> dict[TopicPartition, GroupOffset]:
        """What is to be set, by source partition."""
        return {each.answer.other: each.wanted for each in self.places if each.is_due}


@dataclass(frozen=True, slots=True)
class _Look:
    """Both sides at one moment. `awake`: who has members, and on which side, at home first, which
    concerns only those who come back; `troubles`: for whom a cluster does not answer.
    """

    troubles: Mapping[str, str]
    awake: Mapping[str, str]
    home: Mapping[str, GroupOffsets]
    there: Mapping[str, GroupOffsets]

    def awake_words(self, group: str) -> str:
        """Why a group with members stays; "" of one that has none."""
        at = self.awake.get(group)
        return "" if at is None else f"it has members on {at}: stop them, and say it again"


async def find_returns(
    source: Cluster,
    target: Cluster,
    fleet: FleetName,
    flow: Flow,
    clock: Clock,
    only: Collection[str] = (),
) -> list[Return]:
    """Each group of the link that has read copies by itself, or has its place there alone, or
    these; changes nothing.

    Raises: RefusedError when one of `only` is no group that a rule takes, or the source is not the
    cluster that the catalog means; as `read_catalog` and `copies_of`, and errors of both clusters.
    """
    written = WrittenTail(target, checkpoint.topic_name(flow.link.source))
    try:
        await written.refresh()
    finally:
        written.close()
    # a group that is not listed may be hidden from us, or without its coordinator
    listed = (await list_groups(target)).keys() | written.groups
    names = groups_of(target, flow, listed, only)
    look = await _look(source, target, names)
    view = await read_catalog(target, fleet)
    view.check_source(flow.link.source, source.cluster_id, fleet)
    copies = await copies_of(target, fleet, flow, view, clock)
    gone = await _gone(source, target, look, copies)
    found = [Return(name, trouble=trouble) for name, trouble in look.troubles.items()]
    for name, offsets in look.there.items():
        ours = written_for(written.of(name))
        if look.awake.get(name) == source.name:  # who is at work at home has what it wants there
            own = own_progress(offsets, ours)
        else:
            own = left_there(offsets, ours, look.home[name], copies, gone)
        places = tuple(places_at_home(name, own, look.home[name], copies, flow, ours))
        trouble = unmapped(name, own, copies, flow)
        if name in look.awake and (trouble or any(one.is_due for one in places)):
            trouble = look.awake_words(name)
        if places or trouble:
            found.append(Return(name, places, trouble))
    found = await _with_ends(source, target, sorted(found, key=lambda one: one.group))
    return [_judged(one, copies) for one in found]


async def _gone(
    source: Cluster, target: Cluster, look: _Look, copies: Copies
) -> set[PartitionIdentity]:
    """Where groups have offsets on the target, and a topic of either side was deleted."""
    stood_at = {at for offsets in look.there.values() for at in offsets}
    entries = [one for one in map(copies.by_target, stood_at) if one is not None]
    seen = await sides_seen(source, target, entries)
    return {one.identity for one in entries if side_words(one, seen[one.identity])[0]}


def _judged(one: Return, copies: Copies) -> Return:
    said = (unread(place, copies) for place in one.places if place.is_due)
    return one if one.trouble else replace(one, trouble=next(filter(None, said), ""))


async def _look(source: Cluster, target: Cluster, names: Sequence[str]) -> _Look:
    states = [(each, await list_groups(each, any_protocol=True)) for each in (source, target)]
    home = await fetch_offsets(source, names, stable=True)
    there = await fetch_offsets(target, names, stable=True)
    troubles, awake = dict[str, str](), dict[str, str]()
    for name in names:
        for cluster, answers in ((source, home), (target, there)):
            if isinstance(answer := answers[name], BrokerError):
                troubles[name] = f"{cluster.name}: {answer}"
        for cluster, listed in states:
            if state_of(listed, name).activity is Activity.ACTIVE:
                awake.setdefault(name, cluster.name)
    return _Look(troubles, awake, _answered(home, troubles), _answered(there, troubles))


def _answered(
    answers: Mapping[str, GroupOffsets | BrokerError], troubles: Mapping[str, str]
) -> dict[str, GroupOffsets]:
    return {
        name: one
        for name, one in answers.items()
        if name not in troubles and not isinstance(one, BrokerError)
    }


async def _with_ends(source: Cluster, target: Cluster, found: Sequence[Return]) -> list[Return]:
    """With where the source's logs begin. A log that ends before the place has lost what was copied
    from it, and a topic may not be the one that the map is about: both keep a group.
    """
    places = [place for each in found for place in each.places]
    wanted = [each.answer.other for each in places]
    starts = await list_offsets(source, dict.fromkeys(wanted, EARLIEST))
    ends = await list_offsets(source, dict.fromkeys(wanted, LATEST))
    there = await list_offsets(
        target, dict.fromkeys((each.answer.partition for each in places), EARLIEST)
    )
    seen = await sides_seen(source, target, [each.answer.entry for each in places])

    def said_of(place: Place) -> str:
        entry, at = place.answer.entry, place.answer.other
        start, end = starts[at], ends[at]
        gone, unsure = side_words(entry, seen[entry.identity])
        said = [f"{gone} {_LEAVE_OUT.format(topic=entry.source_topic)}" if gone else "", unsure]
        said += [str(one) for one in (start, end) if isinstance(one, BrokerError)]
        if not isinstance(end, BrokerError) and end.offset < place.answer.offset:
            said.append(f"{at} ends at {end.offset}, before {place.answer.offset}: {_LOST}")
        told = next(filter(None, said), "")
        return f"{place.answer.partition}: {told}" if told else ""

    def placed(place: Place) -> Place:
        start, begin = starts[place.answer.other], there[place.answer.partition]
        if not isinstance(begin, BrokerError) and begin.offset < place.began:
            place = replace(place, began=0)
        return place if isinstance(start, BrokerError) else replace(place, start=start.offset)

    return [
        replace(
            one,
            places=tuple(map(placed, one.places)),
            trouble=one.trouble or next(filter(None, map(said_of, one.places)), ""),
        )
        for one in found
    ]


async def make_returns(source: Cluster, target: Cluster, agreed: Iterable[Return]) -> list[Return]:
    """Set what is due of groups that nothing keeps, and that stand where they stood when shown.

    A coordinator may refuse a part of a group: then `trouble` and `done` say what was set.
    """
    found = list(agreed)
    names = [one.group for one in found if one.due and not one.trouble]
    if not names:
        return found
    found = await _with_ends(source, target, found)
    look = await _look(source, target, names)
    found = [replace(one, trouble=_since(one, look)) for one in found]
    due = {one.group: one.due for one in found if one.due and not one.trouble}
    refused = await _commit(source, due)
    now = await _stand(source, refused)
    return [
        _after(one, refused[one.group], now[one.group]) if one.group in refused else one
        for one in found
    ]


async def _commit(
    source: Cluster, due: Mapping[str, Mapping[TopicPartition, GroupOffset]]
) -> dict[str, MirrorfleetError]:
    """Who was refused, and why; when a cluster goes away in between some may be set."""
    try:
        answers = await commit_offsets(source, due, once=True) if due else {}
    except MirrorfleetError as error:
        return dict.fromkeys(due, error)
    return {name: one for name, one in answers.items() if one is not None}


async def _stand(
    source: Cluster, groups: Collection[str]
) -> Mapping[str, GroupOffsets | MirrorfleetError]:
    try:
        return await fetch_offsets(source, sorted(groups)) if groups else {}
    except MirrorfleetError as error:
        return dict.fromkeys(groups, error)


def _since(one: Return, look: _Look) -> str:
    """Why a group is not set after all."""
    trouble = one.trouble or look.troubles.get(one.group, "") or look.awake_words(one.group)
    if trouble or one.group not in look.home:
        return trouble
    home, there = look.home[one.group], look.there[one.group]
    for place in one.places:
        answer = place.answer
        now = offset_at(there, answer.partition), offset_at(home, answer.other)
        if now != (answer.asked, place.stands):
            return _MOVED
    return ""


def _after(one: Return, error: MirrorfleetError, now: GroupOffsets | MirrorfleetError) -> Return:
    """As it stands after a refusal."""
    if isinstance(now, MirrorfleetError):
        return replace(one, trouble=f"{error}; what was set is not known: {now}")
    done = frozenset(at for at, wanted in one.due.items() if now.get(at) == wanted)
    said = f"{error}; {len(done)} of its {len(one.due)} offsets are set"
    return replace(one, trouble=said, done=done)


def return_rows(found: Iterable[Return], due: str) -> list[dict[str, object]]:
    """A row a partition, `due` being the word for what is, or was, to be set; a row for a group
    that has no place because nobody tells its offsets.
    """
    rows: list[dict[str, object]] = []
    for one in found:
        same: dict[str, object] = {"group": one.group, "trouble": one.trouble or None}
        if one.trouble and not one.places:
            rows.append(dict.fromkeys(COLUMNS, None) | same | {"outcome": "NOT SET"})
        rows += [_row(one, place, due) | same for place in one.places]
    return rows


def _row(one: Return, place: Place, due: str) -> dict[str, object]:
    answer = place.answer
    return {
        "outcome": _outcome(one, place, due),
        "topic": answer.other.topic,
        "partition": answer.other.partition,
        "stood_at": place.stands,
        "goes_on": place.goes_on,
        "target_topic": answer.partition.topic,
        "target_offset": answer.asked,
        "found": str(answer.found) if place.goes_on == answer.offset else LOG_START,
    }


def _outcome(one: Return, place: Place, due: str) -> str:
    is_done = place.answer.other in one.done
    if one.trouble and not is_done:
        return "NOT SET"
    if place.is_due:
        return due
    return "further at home" if place.stands != place.goes_on else "in place"
