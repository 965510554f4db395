"""Our sharing of slots in the form of an assignor of aiokafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from mirrorfleet.copying.sharing import Share, share
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import (
    Claim,
    decode_claim,
    decode_handed,
    encode_claim,
    encode_handed,
)

PROTOCOL: Final = "mirrorfleet-1"
NOBODY: Final = Claim(-1, frozenset(), frozenset(), frozenset())


class _Metadata(Protocol):
    """aiokafka's ConsumerProtocolMemberMetadata."""

    @property
    def user_data(self) -> bytes: ...


class _Assignment(Protocol):
    """aiokafka's ConsumerProtocolMemberAssignment."""

    @property
    def user_data(self) -> bytes: ...
    def partitions(self) -> list[tuple[str, int]]: ...


class Assignor:
    """What a member brings, how one decides for all, and what was decided for each."""

    name: Final = PROTOCOL

    def __init__(
        self, topic: str, claim: Callable[[], Claim], take: Callable[[Share], None]
    ) -> None:
        self._topic, self._claim, self._take = topic, claim, take

    def metadata(self, topics: object) -> object:
        """What we bring to a JoinGroup."""
        del topics
        return ConsumerProtocolMemberMetadata(0, [self._topic], encode_claim(self._claim()))

    def assign(self, cluster: object, members: Mapping[str, _Metadata]) -> dict[str, object]:
        """Decide for all."""
        del cluster
        shares = share({member: _claim_of(found) for member, found in members.items()})
        return {
            member: ConsumerProtocolMemberAssignment(
                0, [(self._topic, sorted(one.slots))], encode_handed(one.handed)
            )
            for member, one in shares.items()
        }

    def on_assignment(self, assignment: _Assignment) -> None:
        """What was decided for us."""
        slots = frozenset(SlotNumber(number) for _, number in assignment.partitions())
        try:
            handed = decode_handed(assignment.user_data)
        except MirrorfleetError:
            handed = frozenset()  # shared out by another build: we do not wait for anybody
        self._take(Share(slots, handed))


def _claim_of(found: _Metadata) -> Claim:
    try:
        return decode_claim(found.user_data)
    except MirrorfleetError:
        return NOBODY
