"""A target cluster that has topics with ids, or had them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterId, TopicId
from mirrorfleet.kafka.metadata import Metadata, TopicMeta
from tests.unit.records.making import OTHER_ID, TARGET_ID

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_HIDDEN: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass
class Target:
    """All topics have one id."""

    topic_id: TopicId = TARGET_ID
    error: ErrorCode = ErrorCode.NONE
    is_away: bool = False
    asked: list[Sequence[str]] = field(default_factory=list)
    cluster_id: str = ""

    async def metadata(self, topics: Sequence[str]) -> Metadata:
        self.asked.append(topics)
        if self.is_away:
            raise DeadlineError("west does not answer.")
        found = {name: TopicMeta(name, self.topic_id, self.error, False, {}) for name in topics}
        return Metadata(ClusterId(""), 0, {}, found)

    def cluster(self) -> Cluster:
        return cast("Cluster", self)


def made_again() -> Target:
    return Target(OTHER_ID)


def deleted() -> Target:
    return Target(error=_UNKNOWN)


def hidden() -> Target:
    return Target(error=_HIDDEN)


def away() -> Target:
    return Target(is_away=True)
