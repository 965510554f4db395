"""Values that the record tests share."""

from __future__ import annotations

from uuid import UUID

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, PartitionIdentity

CLUSTER = ClusterId("AAECAwQFBgcICQoLDA0ODw")
SOURCE_ID = UUID("11111111-1111-1111-1111-111111111111")
TARGET_ID = UUID("22222222-2222-2222-2222-222222222222")
OTHER_ID = UUID("33333333-3333-3333-3333-333333333333")
LINK = Link(ClusterAlias("east"), ClusterAlias("west"))


def identity(
    partition: int = 0, *, cluster: str = CLUSTER, source: UUID = SOURCE_ID, incarnation: int = 0
) -> PartitionIdentity:
    return PartitionIdentity(ClusterId(cluster), source, partition, TARGET_ID, incarnation)
