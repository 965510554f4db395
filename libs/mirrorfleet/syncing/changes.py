"""The changes of a target: what each is, and in words. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.access import AclBinding
from mirrorfleet.planning.access import AclStep
from mirrorfleet.planning.rules import factor_words
from mirrorfleet.planning.topics import Reason

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link
    from mirrorfleet.planning.plan import Alteration, Creation, Plan
    from mirrorfleet.policy.claims import Claim


class ChangeKind(StrEnum):
    """What was done to a target; the word of the metric."""

    CREATED = "created"
    GROWN = "grown"
    ALTERED = "altered"
    ACL_ADDED = "acl-added"
    ACL_REMOVED = "acl-removed"


OPERATIONS: Final = {
    ChangeKind.CREATED: "CREATE",
    ChangeKind.GROWN: "ALTER",
    ChangeKind.ALTERED: "ALTER_CONFIGS",
    ChangeKind.ACL_ADDED: "ALTER",
    ChangeKind.ACL_REMOVED: "ALTER",
}
"""The right that each change needs (Kafka's table of operations by API)."""

ACL_KINDS: Final = {AclStep.ADD: ChangeKind.ACL_ADDED, AclStep.REMOVE: ChangeKind.ACL_REMOVED}


class Change(NamedTuple):
    """One change of one target topic, or of an ACL: then `topic` and `target` are ""."""

    link: Link
    kind: ChangeKind
    topic: str = ""
    """The source's."""
    target: str = ""
    acl: AclBinding | None = None


class Done(NamedTuple):
    """A change that the target has made, and what to say about it."""

    change: Change
    detail: str


def edit_words(each: Alteration) -> str:
    """A change of configs."""
    return f"{each.claim.target_topic}: {', '.join(map(str, each.edits))}"


def of_topic(claim: Claim, kind: ChangeKind) -> Change:
    """A change of the copy of a claim."""
    return Change(claim.link, kind, claim.source_topic, claim.target_topic)


def of_acl(link: Link, acl: AclBinding, step: AclStep = AclStep.ADD) -> Change:
    """That an ACL is added or removed."""
    return Change(link, ACL_KINDS[step], acl=acl)


def size_words(made: Creation) -> str:
    """What a new topic is like."""
    factor = factor_words(made.spec.replication_factor, made.source_replicas)
    return f"{made.spec.name} with {made.spec.partitions} partitions, {factor}"


def reason_of(kind: ChangeKind) -> Reason:
    """Only what is altered is copied in full all the same; growth lacks partitions until made."""
    return Reason.CONFIG_REFUSED if kind is ChangeKind.ALTERED else Reason.REFUSED


def changes_of(link: Link, plan: Plan) -> Iterator[Change]:
    """Every change of a plan but the catalog's."""
    parts: Iterable[tuple[ChangeKind, Iterable[Claim]]] = (
        (ChangeKind.CREATED, (each.claim for each in plan.create)),
        (ChangeKind.GROWN, (each.claim for each in plan.grow)),
        (ChangeKind.ALTERED, (each.claim for each in plan.alter)),
    )
    for kind, claims in parts:
        yield from (of_topic(claim, kind) for claim in claims)
    for edit in plan.acls:
        if edit.step in ACL_KINDS:
            yield of_acl(link, edit.binding, edit.step)
