"""The ACLs of a link's two clusters, looked at every few seconds.

A cluster without an authorizer, or one that does not let us look, is no error: copying goes on,
and `AclsSeen.trouble` says why ACLs do not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import HOW_TO_GRANT, BrokerError, may_not
from mirrorfleet.kafka.acls import describe_acls
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.access import Way, shortest_ways
from mirrorfleet.planning.observed import AclsSeen

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.planning.observed import SourceView

Ways = Mapping[AclBinding, Iterable[Way]]

_TARGET_S: Final = 10.0
"""Deadline for the list of the target: all links wait for it."""


class _Listed(NamedTuple):
    """The ACLs of a cluster, or why they are not known."""

    acls: frozenset[AclBinding] = frozenset()
    trouble: str = ""


class AclWatch:
    """Both ends, look after look; the source apart: for that no other link waits."""

    def __init__(self, source: Cluster, target: Cluster, clock: Clock, *, period_s: float) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._period_s = period_s
        self._of_source = _Listed(trouble="not looked at yet")
        self._of_target: _Listed | None = None  # None: to be read
        self._ways: Ways = {}
        self._topics: frozenset[tuple[str, TopicId]] = frozenset()
        """Those that there were when the source's were read."""
        self.read_at = 0.0
        """When the source's were read, and the target's no earlier; in seconds of the clock."""
        self._due = 0.0

    async def look_at_source(self, source: SourceView) -> None:
        """Read its ACLs unless that was less than `period_s` ago and `source` has no new topic: a
        denial that was there before its topic must be there before the copy.

        What the catalogs said when the ACLs were read counts on, until they are read again: one
        that was taken back since is not the source's own because its fleet has forgotten it.

        Raises:
            MirrorfleetError: it does not answer.
        """
        wanted = source.wanted.items()
        if self._clock.monotonic() < self._due and self._topics.issuperset(wanted):
            return
        self._of_source, self._ways = await _listed(self._source), source.acl_ways
        self._of_target, self._topics = None, frozenset(wanted)
        self.read_at = self._clock.monotonic()
        self._due = self.read_at + self._period_s

    async def look(self, ways: Ways) -> AclsSeen:
        """What the source was found to have, and what the target has, read no earlier than that.

        Raises:
            MirrorfleetError: the target does not answer.
        """
        trouble = self._of_source.trouble
        if self._of_target is None and not trouble:
            self._of_target = await _listed(self._target, _TARGET_S)
        there = self._of_target or _Listed()
        return AclsSeen(
            source=self._of_source.acls,
            target=there.acls,
            passed=shortest_ways({**self._ways, **ways}, self._target.cluster_id),
            trouble=trouble or there.trouble,
        )

    def forget(self) -> None:
        """Look again the next time: we have changed some."""
        self._due, self._of_target = 0.0, None


async def _listed(cluster: Cluster, deadline_s: float | None = None) -> _Listed:
    try:
        return _Listed(frozenset(await describe_acls(cluster, deadline_s=deadline_s)))
    except BrokerError as error:
        trouble = _trouble(cluster, error)
        if trouble is None:
            raise
        return _Listed(trouble=trouble)


def _trouble(cluster: Cluster, error: BrokerError) -> str | None:
    if error.code is ErrorCode.SECURITY_DISABLED:
        return f"{cluster.name} has no ACL authorizer"
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        who = cluster.settings.security.principal
        text = may_not(who, "DESCRIBE", "Cluster", cluster.name)
        return f"{text}. {HOW_TO_GRANT}"
    return None
