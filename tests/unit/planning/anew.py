"""What workers ask `sync` for: another incarnation of one of their partitions."""

from __future__ import annotations

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.planning.observed import TargetTopic
from mirrorfleet.planning.topics import Reason
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.commands import Action, Command
from tests.unit.planning.samples import LINK, Scene, copied, orders, planned

Entries = tuple[CatalogPartition, ...]


def asked_anew(
    old: CatalogPartition, start: str, cause: Reason | str = "source-truncated"
) -> Command:
    return Command(
        id="one",
        action=Action.BEGIN_ANEW,
        identity=old.identity,
        link=LINK,
        topic="orders",
        first=SourceOffset(40),
        end=SourceOffset(60),
        time_ms=1,
        expires_ms=2,
        writer="worker",
        start=start,
        cause=cause,
        records=20,
        request="two",
        detail="why",
    )


def first_of_two(there: TargetTopic) -> tuple[Scene, Entries, Entries]:
    """The first of two partitions of a recreated target begins anew; the other waits for a word.

    The request, the entries of before, and the new ones.
    """
    old = planned(orders(2), copied(2)).publish
    asked = asked_anew(old[0], "offset:0", Reason.TARGET_RECREATED)
    scene = Scene(anew={old[0].identity: asked})
    return scene, old, planned(orders(2), there, entries=old, scene=scene).publish
