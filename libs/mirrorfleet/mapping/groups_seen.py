"""Groups as one look finds them on both sides of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorfleet.kafka.groups import GroupOffsets, ListedGroup, state_of
from mirrorfleet.offsets.homes import Activity


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """`groups` and what they `committed` are of the source, `there` and `offsets` of the target."""

    groups: Mapping[str, ListedGroup]
    committed: Mapping[str, GroupOffsets]
    there: Mapping[str, ListedGroup]
    offsets: Mapping[str, GroupOffsets]

    def at_home(self, group: str) -> Activity:
        """The same of the source: one that is not listed may only be hidden from us."""
        return state_of(self.groups, group).activity

    def activity(self, group: str) -> Activity:
        """Whether the group has members on the target; one that is not listed has none."""
        return state_of(self.there, group).activity

    @property
    def idle(self) -> Mapping[str, GroupOffsets]:
        """Offsets on the target of groups without members there."""
        return {
            group: one
            for group, one in self.offsets.items()
            if self.activity(group) is Activity.IDLE
        }
