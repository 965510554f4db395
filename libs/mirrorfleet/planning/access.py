"""Which ACLs must be added to and removed from a target. No I/O.

Only ACLs that the fleet added itself (the catalog remembers them) are ever removed: one that an
operator gave on the target stays, also when the source has no such thing. And none is removed
because one look did not see its topic: a denial must not be away for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from mirrorfleet.core.access import AclBinding, show
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.flows import AclPolicy


class AclStep(StrEnum):
    """What is done with an ACL."""

    ADD = "add"
    REMOVE = "remove"
    FORGET = "forget"
    """It is gone already; the catalog need not remember it."""


class AclEdit(NamedTuple):
    """One ACL of the target."""

    step: AclStep
    binding: AclBinding

    def __str__(self) -> str:
        return show(self.binding)


def acl_edits(
    policy: AclPolicy,
    seen: AclsSeen,
    ours: Iterable[AclBinding],
    crossings: Crossings,
    unsure: Crossings,
) -> tuple[AclEdit, ...]:
    """The edits, denials first: a right is never there before what limits it.

    `ours` are the ACLs of the target that the catalog remembers as added for this link; `unsure` is
    about topics that this look does not decide: what may be wanted for them is kept, not added.
    """
    if policy is AclPolicy.IGNORE or seen.trouble:
        return ()
    there = seen.source - seen.echoes
    wanted = crossings.of(there)
    edits = {AclEdit(AclStep.ADD, binding) for binding in wanted - seen.target}
    if policy is AclPolicy.MIRROR:
        for binding in set(ours) - wanted - unsure.of(there):
            step = AclStep.REMOVE if binding in seen.target else AclStep.FORGET
            edits.add(AclEdit(step, binding))
    return tuple(sorted(edits, key=_order))


def _order(edit: AclEdit) -> tuple[bool, int, AclBinding]:
    return edit.step is not AclStep.ADD, edit.binding.permission, edit.binding
