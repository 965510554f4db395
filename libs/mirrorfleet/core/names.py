"""Names of ours on a cluster: control topics and transactional ids.

One place, because copying excludes them, `acls` grants them and `records` writes them.
"""

from __future__ import annotations

from typing import Final

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber

CONTROL_PREFIX: Final = "__mirrorfleet."
"""Every control topic begins with it; `__` makes each MM2 treat it as internal, too."""


def control_topic(fleet: FleetName, kind: str) -> str:
    """`__mirrorfleet.<fleet>.<kind>`."""
    return f"{CONTROL_PREFIX}{fleet}.{kind}"


def transactional_id(fleet: FleetName, source: ClusterAlias, slot: SlotNumber) -> str:
    """`mirrorfleet.<fleet>.<source>.<slot>`: one for each slot, fences its former owner."""
    return f"mirrorfleet.{fleet}.{source}.{slot}"


def spare_id(fleet: FleetName, source: ClusterAlias, slot: SlotNumber) -> str:
    """The id with which an owner goes on while a partition keeps its main one from going on."""
    return f"{transactional_id(fleet, source, slot)}.spare"


def service_id(fleet: FleetName, service: str) -> str:
    """`mirrorfleet.<fleet>.<service>`: the group of a service's processes.

    It is the transactional id of the active one, too, where its writes are fenced.
    """
    return f"mirrorfleet.{fleet}.{service}"
