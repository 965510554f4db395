"""What of a plan waits for denials that are not on the target. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mirrorfleet.core.access import AclBinding, AclPermission, show
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.denials import Denials


@dataclass(frozen=True, slots=True)
class Limited:
    """Topics and rights that are left out of a plan, each with the denial that must come first."""

    topics: Mapping[Claim, AclBinding] = field(default_factory=dict)
    rights: Mapping[AclBinding, AclBinding] = field(default_factory=dict)

    def held(self) -> Iterator[Held]:
        """The topics, with why; the denials are held themselves."""
        for claim, denial in self.topics.items():
            text = (
                f"{claim.target_topic} is not created before what the source denies of it, and"
                f" {show(denial)} is not there: why is said with the ACLs that are held"
            )
            yield Held(claim.source_topic, Reason.REFUSED, text)

    def names(self) -> set[str]:
        """The target topics, and the rights in words."""
        return {claim.target_topic for claim in self.topics} | {show(each) for each in self.rights}

    def left_of(self, plan: Plan) -> Plan:
        """`plan` without them."""
        return replace(
            plan,
            create=tuple(each for each in plan.create if each.claim not in self.topics),
            acls=tuple(each for each in plan.acls if not self._has(each)),
        )

    def _has(self, edit: AclEdit) -> bool:
        return edit.step is AclStep.ADD and edit.binding in self.rights


def limited(plan: Plan, undone: Iterable[AclBinding]) -> Limited:
    """What of `plan` must wait for these denials."""
    denials, rights = Denials(undone), denials_and_rights(plan)[1]
    topics = {each.claim: denials.on_topic(each.claim.target_topic) for each in plan.create}
    under = {each: denials.on_right(each) for each in rights}
    return Limited(
        {claim: denial for claim, denial in topics.items() if denial is not None},
        {right: denial for right, denial in under.items() if denial is not None},
    )


def denials_and_rights(plan: Plan) -> tuple[list[AclBinding], list[AclBinding]]:
    """The ACLs to be added."""
    added = [each.binding for each in plan.acls if each.step is AclStep.ADD]
    denials = [each for each in added if each.permission is AclPermission.DENY]
    return denials, [each for each in added if each.permission is not AclPermission.DENY]
