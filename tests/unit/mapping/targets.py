"""A cluster that has topics with ids, or had them; mostly a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterId, TopicId
from mirrorfleet.kafka.metadata import Metadata, TopicMeta
from tests.unit.records.making import OTHER_ID, SOURCE_ID, TARGET_ID

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
    name: str = "west"

    async def metadata(self, topics: Sequence[str], *, deadline_s: float | None = None) -> Metadata:
        self.asked.append(topics)
        if self.is_away:
            raise DeadlineError(f"{self.name} does not answer.")
        found = {name: TopicMeta(name, self.topic_id, self.error, False, {}) for name in topics}
        return Metadata(ClusterId(""), 0, {}, found)

    async def close(self) -> None:
        pass

    def cluster(self) -> Cluster:
        return cast("Cluster", self)


def source_of(of: Target | None = None, *, topic_id: TopicId = SOURCE_ID) -> Target:
    """The other side, in the same state."""
    of = of or Target()
    here = topic_id if of.topic_id == TARGET_ID else of.topic_id
    return replace(of, topic_id=here, name="east", asked=[])


def made_again() -> Target:
    return Target(OTHER_ID)


def deleted() -> Target:
    return Target(error=_UNKNOWN)


def hidden() -> Target:
    return Target(error=_HIDDEN)


def away() -> Target:
    return Target(is_away=True)
