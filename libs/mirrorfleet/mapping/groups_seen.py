"""Groups as one look finds them on both sides of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.offsets.homes import Activity


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """`groups` and what they `committed` are of the source, `there` and `offsets` of the target."""

    groups: Mapping[str, ListedGroup]
    committed: Mapping[str, GroupOffsets]
    there: Mapping[str, ListedGroup]
    offsets: Mapping[str, GroupOffsets]

    def activity(self, group: str) -> Activity:
        """Whether the group has members on the target; one that is not listed has none."""
        listed = self.there.get(group)
        return (listed.state if listed else GroupState.DEAD).activity

    @property
    def idle(self) -> Mapping[str, GroupOffsets]:
        """Offsets on the target of groups without members there."""
        return {
            group: one
            for group, one in self.offsets.items()
            if self.activity(group) is Activity.IDLE
        }
