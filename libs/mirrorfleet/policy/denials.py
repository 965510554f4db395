"""What must not be on a target before a denial is: topics and rights that it limits. No I/O.

A topic without the denial of its source is open to who is denied it there; so is one of which a
right is given to more than who has it at the source. Operations and hosts do not matter: which one
implies another is the authorizer's to say, and what waits in vain waits no longer than the denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirrorfleet.core.access import AclBinding, AclResource
from mirrorfleet.policy.crossing import EVERYONE, is_wide, overlap, prefix_of


class Denials:
    """Denials that are not on the target."""

    def __init__(self, denials: Iterable[AclBinding]) -> None:
        self._wide: list[AclBinding] = []
        self._named: dict[tuple[AclResource, str], list[AclBinding]] = {}
        for each in denials:
            if is_wide(each):
                self._wide.append(each)
            else:
                self._named.setdefault((each.resource, each.name), []).append(each)

    def on_topic(self, name: str) -> AclBinding | None:
        """One that is about this topic."""
        return next(self._on(AclResource.TOPIC, name), None)

    def on_right(self, right: AclBinding) -> AclBinding | None:
        """One that limits this right: for the same user or for all, on any name of both."""
        found = self._under(right) if is_wide(right) else self._on(right.resource, right.name)
        return next((each for each in found if _meet(each.principal, right.principal)), None)

    def _on(self, resource: AclResource, name: str) -> Iterator[AclBinding]:
        yield from self._named.get((resource, name), ())
        for each in self._wide:
            if each.resource is resource and name.startswith(prefix_of(each)):
                yield each

    def _under(self, right: AclBinding) -> Iterator[AclBinding]:
        prefix = prefix_of(right)
        for (resource, name), denials in self._named.items():
            if resource is right.resource and name.startswith(prefix):
                yield from denials
        for each in self._wide:
            if each.resource is right.resource and overlap(prefix_of(each), prefix):
                yield each


def _meet(one: str, other: str) -> bool:
    return one == other or EVERYONE in {one, other}
