"""Which ACLs of a source hold for the copies on a target, and under which names. No I/O.

    source                                  target
    ALLOW READ TOPIC LITERAL orders         ... LITERAL east.orders
    ALLOW ALL  TOPIC LITERAL orders         ALLOW READ ... : only the fleet writes copies
    DENY ALL   TOPIC LITERAL orders         DENY each operation but WRITE
    ALLOW or DENY WRITE                     nothing
    ALLOW READ TOPIC PREFIXED ord           PREFIXED east.ord; identity naming: LITERAL, each copy
    ALLOW READ TOPIC LITERAL *              PREFIXED east.   ; identity naming: LITERAL, each copy
    ALLOW READ GROUP LITERAL app            the same, when a rule follows the group
    DENY  READ GROUP PREFIXED ap            ... PREFIXED app-, when a rule follows app-.*

MM2's MirrorSourceConnector takes literal topic ACLs but ALLOW WRITE, and makes ALLOW ALL to READ.
Here WRITE does not cross as a denial either, because it would stop the fleet's own writes, nor does
what is denied to everybody and the fleet must do: DESCRIBE and more with copies, READ and DESCRIBE
in its own groups. (A denied READ of a topic crosses: nobody is to read the copy.)
Else a right is never wider there than here: under identity naming a prefix would also mean topics
of the target's own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from mirrorfleet.core.names import ID_PREFIX
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.filters import NameFilter, is_literal, literal_prefix
from mirrorfleet.policy.flows import Flow
from mirrorfleet.policy.naming import Naming, is_heartbeats_topic, remote_name

EVERYONE: Final = "User:*"
ANY_NAME: Final = "*"
_BECOMES: Final = {AclOperation.ALL: AclOperation.READ, AclOperation.WRITE: None}
_OURS: Final = frozenset(
    {
        AclOperation.DESCRIBE,
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    }
)
"""What the fleet itself must be able to do with copies."""
_DENIED_BY_ALL: Final = {
    AclResource.TOPIC: (AclOperation.READ, AclOperation.DELETE, *sorted(_OURS)),
    AclResource.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
}
"""What a denial of ALL says of copies; brokers apply one of an operation to that alone."""


def crossing(binding: AclBinding, us: Collection[str]) -> AclBinding | None:
    """The ACL as it may hold on the other side, its name still the source's; None: it may not.

    `us` are the fleet's principals: what they may do on either side is not the source's to say.
    """
    known = {binding.resource, binding.pattern, binding.operation, binding.permission}
    if 0 in known or binding.resource not in {AclResource.TOPIC, AclResource.GROUP}:
        return None
    operation = _BECOMES.get(binding.operation, binding.operation)
    if operation is None or binding.principal in us:
        return None
    denies_all = binding.permission is AclPermission.DENY and binding.principal == EVERYONE
    crossed = binding._replace(operation=operation)
    return None if denies_all and _stops_us(crossed) else crossed


def _stops_us(denial: AclBinding) -> bool:
    """Whether the fleet needs what it denies: with copies, or in its own groups."""
    if denial.resource is AclResource.TOPIC:
        return denial.operation in _OURS
    if denial.operation not in {AclOperation.READ, AclOperation.DESCRIBE}:
        return False
    if not is_wide(denial):
        return denial.name.startswith(ID_PREFIX)
    return overlap(prefix_of(denial), ID_PREFIX)


def overlap(prefix: str, other: str) -> bool:
    """Whether some name begins with both."""
    return prefix.startswith(other) or other.startswith(prefix)


class Crossings:
    """The ACLs of one link: `claims` are what it copies."""

    def __init__(self, flow: Flow, claims: Iterable[Claim], us: Collection[str]) -> None:
        self._flow = flow
        self._us = us
        self._naming = {rule.name: rule.naming for rule in flow.rules}
        self._copies: dict[str, list[Claim]] = {}
        for claim in claims:  # what has ended may have been copied under other names, too
            self._copies.setdefault(claim.source_topic, []).append(claim)
        self._names = sorted(self._copies)

    def of(self, bindings: Iterable[AclBinding]) -> frozenset[AclBinding]:
        """What should hold on the target for these ACLs of the source."""
        said = (one for binding in bindings for one in _each_denied(binding))
        return frozenset(made for one in said for made in self._of_one(one))

    def is_about_us(self, binding: AclBinding) -> bool:
        """Whether it is about a user that the fleet is: the source has no say in what that may."""
        return binding.principal in self._us

    def _of_one(self, binding: AclBinding) -> Iterator[AclBinding]:
        crossed = crossing(binding, self._us)
        if crossed is None:
            return
        if crossed.resource is AclResource.GROUP:
            followed = [rule.groups for rule in self._flow.rules]
            if any(_takes(groups, crossed) for groups in followed):
                yield crossed
            elif crossed.permission is AclPermission.DENY and is_wide(crossed):
                yield from _within(crossed, (one for groups in followed for one in groups.include))
            return
        copies = self._covered(crossed)
        if is_wide(crossed):
            prefix = prefix_of(crossed)
            if any(map(self._is_prefixed, copies)):
                name = remote_name(Naming.PREFIX, self._flow.link.source, prefix)
                yield crossed._replace(name=name, pattern=AclPattern.PREFIXED)
            copies = [one for one in copies if not self._is_prefixed(one)]
        for claim in copies:
            yield crossed._replace(name=claim.target_topic, pattern=AclPattern.LITERAL)

    def _is_prefixed(self, claim: Claim) -> bool:
        """As its rule names copies; that of a copy that has ended may be gone: by its names then.

        Heartbeats are prefixed under any naming.
        """
        if claim.rule in self._naming or is_heartbeats_topic(claim.source_topic):
            return self._naming.get(claim.rule) is Naming.PREFIX
        return claim.source_topic != claim.target_topic

    def _covered(self, binding: AclBinding) -> Sequence[Claim]:
        """The copied topics that an ACL is about."""
        if not is_wide(binding):
            return self._copies.get(binding.name, [])
        prefix = prefix_of(binding)
        names: list[str] = []
        for name in self._names[bisect_left(self._names, prefix) :]:
            if not name.startswith(prefix):
                break
            names.append(name)
        return [claim for name in names for claim in self._copies[name]]


def is_wide(binding: AclBinding) -> bool:
    """Whether it is about more than one name; `*` is any, as a prefix it is a letter."""
    return _is_any(binding) or binding.pattern is AclPattern.PREFIXED


def _is_any(binding: AclBinding) -> bool:
    return binding.pattern is AclPattern.LITERAL and binding.name == ANY_NAME


def prefix_of(wide: AclBinding) -> str:
    """How the names begin that a wide ACL is about."""
    return "" if _is_any(wide) else wide.name


def _each_denied(binding: AclBinding) -> Iterator[AclBinding]:
    """A denial of ALL as those of each operation that may cross; all else as it is."""
    of_all = (binding.operation, binding.permission) == (AclOperation.ALL, AclPermission.DENY)
    operations = _DENIED_BY_ALL.get(binding.resource, ()) if of_all else ()
    for operation in operations or (binding.operation,):
        yield binding._replace(operation=operation)


def _within(denial: AclBinding, patterns: Iterable[str]) -> Iterator[AclBinding]:
    """What a wide denial says of the groups that are followed: it limits rights that cross."""
    prefix = prefix_of(denial)
    for pattern in patterns:
        name, is_whole = literal_prefix(pattern)
        if is_whole and "." in name:  # any letter there, where it is a pattern
            begins = zip(name, prefix, strict=False)
            if len(prefix) > len(name) or any(one not in {".", other} for one, other in begins):
                continue
            name, is_whole = name.partition(".")[0], False
        if is_whole and name.startswith(prefix):
            yield denial._replace(name=name, pattern=AclPattern.LITERAL)
        elif not is_whole and overlap(prefix, name):
            longer = max(prefix, name, key=len)
            yield denial._replace(name=longer, pattern=AclPattern.PREFIXED) if longer else denial


def _takes(groups: NameFilter, binding: AclBinding) -> bool:
    """Whether all groups that the ACL is about are followed: a right is never wider there."""
    if not is_wide(binding):
        return groups.matches(binding.name)
    if groups.exclude:
        return False
    prefix = prefix_of(binding)
    stems = [one.removesuffix(".*") for one in groups.include if one.endswith(".*")]
    return any(prefix.startswith(one) for one in stems if not one or is_literal(one))
