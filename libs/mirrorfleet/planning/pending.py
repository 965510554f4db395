"""A plan in words, and parts of a plan. No I/O.

Every change has a line before it happens: a `PlannedChange` names what, and from what to what.
`mirrorfleet plan` prints them, `sync` reports them where it may not act, and `mirrorfleet apply`
makes only those that were shown: a plan made later is cut down to them by `within`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from mirrorfleet.core.ids import Link
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.entries import copy_of, replaced
from mirrorfleet.planning.plan import Alteration, Creation, Growth, Plan
from mirrorfleet.planning.rules import Apply, RuleTerms, factor_words
from mirrorfleet.records.catalog import CatalogPartition, CatalogState

T = TypeVar("T")


class Kind(StrEnum):
    """What a change does."""

    CONTROL_TOPIC = "control-topic"
    LINK = "link"
    CREATE = "create-topic"
    GROW = "add-partitions"
    CONFIG = "config"
    ACL_ADD = "add-acl"
    ACL_REMOVE = "remove-acl"
    ACL_NOTE = "note-acl"
    """It stays as it is; the catalog remembers that this source has it, too."""
    ACL_FORGET = "forget-acl"
    """It is gone, or stays all the same; the catalog forgets that this source had it."""
    COPY = "copy"
    TERMS = "terms"
    """A partition is copied as before, under what its rule and its source say now."""
    STOP = "stop-copying"
    ANEW = "begin-anew"
    """A partition goes on as another incarnation, since an offset means something else now."""


_ACL_KINDS = {
    AclStep.ADD: Kind.ACL_ADD,
    AclStep.REMOVE: Kind.ACL_REMOVE,
    AclStep.NOTE: Kind.ACL_NOTE,
    AclStep.FORGET: Kind.ACL_FORGET,
}


@dataclass(frozen=True, slots=True, order=True)
class PlannedChange:
    """`what` is the target topic, the control topic, the ACL or the link."""

    link: str
    kind: Kind
    what: str
    detail: str = ""

    @property
    def key(self) -> tuple[str, Kind, str, str]:
        """What must be the same for it to be the same change; how copying starts may differ, but
        not what is begun anew: each such partition loses something, or is copied again.
        """
        same = "" if self.kind in {Kind.COPY, Kind.TERMS} else self.detail
        return self.link, self.kind, self.what, same


def planned_changes(link: Link, plan: Plan) -> list[PlannedChange]:
    """All of a link's plan, in the order in which it is made."""
    return list(_lines(str(link), plan))


def within(link: Link, plan: Plan, agreed: Collection[PlannedChange]) -> Plan:
    """The part of `plan` that was agreed to; what its rules began with belongs to any part."""
    keys = {change.key for change in agreed}

    def kept(change: PlannedChange) -> bool:
        return change.key in keys

    name = str(link)
    words = _Words(name, plan)
    alter = (_cut(name, each, kept) for each in plan.alter)
    return replace(
        plan,
        create=tuple(each for each in plan.create if kept(_creation(name, each))),
        grow=tuple(each for each in plan.grow if kept(_growth(name, each))),
        alter=tuple(each for each in alter if each.edits),
        acls=tuple(each for each in plan.acls if kept(_acl(name, each))),
        acls_later=tuple(each for each in plan.acls_later if kept(_acl(name, each))),
        publish=tuple(
            each
            for entries in words.groups(plan.publish)
            if kept(words.of(entries))
            for each in entries
        ),
    )


def automatic(plan: Plan, terms: Mapping[str, RuleTerms], otherwise: Apply) -> Plan:
    """What may be done without being asked: all but what belongs to a rule with `apply: manual`.

    `otherwise` is for entries of rules that are gone. ACLs belong to the whole link. Where one
    incarnation follows another, the rule of the one that lives decides on both: none ends alone.
    """
    living = (each for each in plan.publish if each.state is not CatalogState.REMOVED)
    rules = {copy_of(each): each.rule for each in living}

    def free(rule: str) -> bool:
        return (terms[rule].apply if rule in terms else otherwise) is Apply.AUTO

    return replace(
        plan,
        create=tuple(each for each in plan.create if free(each.claim.rule)),
        grow=tuple(each for each in plan.grow if free(each.claim.rule)),
        alter=tuple(each for each in plan.alter if free(each.claim.rule)),
        acls=plan.acls if otherwise is Apply.AUTO and all(map(free, terms)) else (),
        publish=tuple(e for e in plan.publish if free(rules.get(copy_of(e), e.rule))),
        begun=plan.begun if any(map(free, terms)) else None,
    )


def left_out(plan: Plan, part: Plan) -> Plan:
    """What of `plan` is not in `part`, which `automatic` made of it: drift that nobody corrects by
    himself.
    """
    return Plan(
        create=_without(plan.create, part.create),
        grow=_without(plan.grow, part.grow),
        alter=_without(plan.alter, part.alter),
        acls=_without(plan.acls, part.acls),
        publish=_without(plan.publish, part.publish),
        known=plan.known,
        ended=plan.ended,
    )


def _without(whole: Iterable[T], part: Iterable[T]) -> tuple[T, ...]:
    kept = {id(each) for each in part}  # the same objects: comparing 10,000 with each other hangs
    return tuple(each for each in whole if id(each) not in kept)


def _lines(link: str, plan: Plan) -> Iterator[PlannedChange]:
    for edit in (*plan.acls, *plan.acls_later):
        yield _acl(link, edit)
    for creation in plan.create:
        yield _creation(link, creation)
        source, count = creation.claim.source_topic, creation.spec.partitions
        text = _copying(source, range(count), creation.start)
        yield PlannedChange(link, Kind.COPY, creation.spec.name, text)
    for growth in plan.grow:
        yield _growth(link, growth)
        source, name = growth.claim.source_topic, growth.claim.target_topic
        new = range(growth.now, growth.partitions)
        yield PlannedChange(link, Kind.COPY, name, _copying(source, new, growth.start))
    for alteration in plan.alter:
        for config in alteration.edits:
            name = alteration.claim.target_topic
            yield PlannedChange(link, Kind.CONFIG, name, str(config))
    words = _Words(link, plan)
    for entries in words.groups(plan.publish):
        yield words.of(entries)


def _acl(link: str, each: AclEdit) -> PlannedChange:
    return PlannedChange(link, _ACL_KINDS[each.step], str(each))


def _creation(link: str, each: Creation) -> PlannedChange:
    spec = each.spec
    factor = factor_words(spec.replication_factor, each.source_replicas)
    configs = ", ".join(f"{name}={value}" for name, value in sorted(spec.configs.items()))
    text = f"{spec.partitions} partitions, {factor}, {configs}"
    return PlannedChange(link, Kind.CREATE, spec.name, text)


def _growth(link: str, each: Growth) -> PlannedChange:
    text = f"{each.now} -> {each.partitions} partitions"
    return PlannedChange(link, Kind.GROW, each.claim.target_topic, text)


def _cut(link: str, each: Alteration, kept: Callable[[PlannedChange], bool]) -> Alteration:
    name = each.claim.target_topic
    edits = (e for e in each.edits if kept(PlannedChange(link, Kind.CONFIG, name, str(e))))
    return replace(each, edits=tuple(edits))


class _Words:
    """What becomes of the entries of one plan."""

    def __init__(self, link: str, plan: Plan) -> None:
        self._link = link
        self._plan = plan
        self._replaced = replaced(plan.publish)

    def groups(self, entries: Iterable[CatalogPartition]) -> Iterable[list[CatalogPartition]]:
        """Entries of a topic with the same fate."""
        found: dict[tuple[str, Kind], list[CatalogPartition]] = {}
        for entry in entries:
            found.setdefault((entry.target_topic, self.of([entry]).kind), []).append(entry)
        return found.values()

    def of(self, entries: list[CatalogPartition]) -> PlannedChange:
        """One line for entries of a topic with the same fate."""
        first, plan = entries[0], self._plan
        source, target = first.source_topic, first.target_topic
        partitions = {entry.identity.partition for entry in entries}
        text = f"from {source}: {_numbers(partitions)}"
        if copy_of(first) in self._replaced:
            last = max(entry.identity.incarnation for entry in entries)
            return PlannedChange(self._link, Kind.ANEW, target, f"{text}, incarnation {last}")
        if first.state is CatalogState.REMOVED:
            text = plan.ended.get(source, f"{source} has fewer partitions now")
            return PlannedChange(self._link, Kind.STOP, target, text)
        if first.identity in plan.known:
            return PlannedChange(self._link, Kind.TERMS, target, text)
        return PlannedChange(
            self._link, Kind.COPY, target, _copying(source, partitions, first.start)
        )


def _copying(source: str, partitions: Iterable[int], start: str) -> str:
    """Also where copying begins: for what came after its rule that is not what the rule says."""
    return f"from {source}: {_numbers(partitions)}, start {start}"


def _numbers(partitions: Iterable[int]) -> str:
    """All of them: `partition 3`, `partitions 0 to 2`, `partitions 0 to 2, 5`."""
    runs: list[list[int]] = []
    for number in sorted(partitions):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"partition {told}" if [len(run) for run in runs] == [1] else f"partitions {told}"
