"""The ACLs of a link's two clusters, looked at every few seconds.

A cluster without an authorizer, or one that does not let us look, is no error: copying goes on,
and `AclsSeen.trouble` says why ACLs do not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import HOW_TO_GRANT, BrokerError, may_not
from mirrorfleet.kafka.acls import describe_acls
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.access import Way, shortest_ways
from mirrorfleet.planning.observed import AclsSeen

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock

Ways = Mapping[AclBinding, Iterable[Way]]


class AclWatch:
    """Both ends, look after look."""

    def __init__(self, source: Cluster, target: Cluster, clock: Clock, *, period_s: float) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._period_s = period_s
        self._seen = AclsSeen(trouble="not looked at yet")
        self._ways: Ways = {}
        self._due = 0.0

    async def look(self, ways: Ways) -> AclsSeen:
        """What there is, at most `period_s` old; `ways` are those of the source's ACLs.

        What the catalogs said when the ACLs were read counts on, until they are read again: one
        that was taken back since is not the source's own because its fleet has forgotten it.

        Raises:
            MirrorfleetError: a cluster does not answer.
        """
        if self._clock.monotonic() >= self._due:
            self._seen, self._ways = await self._read(), ways
            self._due = self._clock.monotonic() + self._period_s
        passed = shortest_ways({**self._ways, **ways}, self._target.cluster_id)
        return replace(self._seen, passed=passed)

    def forget(self) -> None:
        """Look again the next time: we have changed some."""
        self._due = 0.0

    async def _read(self) -> AclsSeen:
        found: list[frozenset[AclBinding]] = []
        for cluster in (self._source, self._target):
            try:
                found.append(frozenset(await describe_acls(cluster)))
            except BrokerError as error:
                trouble = _trouble(cluster, error)
                if trouble is None:
                    raise
                return AclsSeen(trouble=trouble)
        source, target = found
        return AclsSeen(source=source, target=target)


def _trouble(cluster: Cluster, error: BrokerError) -> str | None:
    if error.code is ErrorCode.SECURITY_DISABLED:
        return f"{cluster.name} has no ACL authorizer"
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        who = cluster.settings.security.principal
        text = may_not(who, "DESCRIBE", "Cluster", cluster.name)
        return f"{text}. {HOW_TO_GRANT}"
    return None
