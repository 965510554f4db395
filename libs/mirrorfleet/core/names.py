"""Names of ours on a cluster: control topics and transactional ids.

One place, because copying excludes them, `acls` grants them and `records` writes them.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber

CONTROL_PREFIX: Final = "__mirrorfleet."
"""Every control topic begins with it; `__` makes each MM2 treat it as internal, too."""
ID_PREFIX: Final = "mirrorfleet."
"""Our groups and transactional ids begin with it; such a group is never copied."""

_APART: Final = 200
"""A multiple of most numbers that `transaction.state.log.num.partitions` has; 50 by default."""


def control_topic(fleet: FleetName, kind: str) -> str:
    """`__mirrorfleet.<fleet>.<kind>`."""
    return f"{CONTROL_PREFIX}{fleet}.{kind}"


def transactional_id(fleet: FleetName, source: ClusterAlias, slot: SlotNumber) -> str:
    """`mirrorfleet.<fleet>.<source>.<slot>`: one for each slot, fences its former owner."""
    return f"{ID_PREFIX}{fleet}.{source}.{slot}"


def spare_id(fleet: FleetName, source: ClusterAlias, slot: SlotNumber) -> str:
    """The id with which an owner goes on while a partition keeps its main one from going on.

    Its number puts it into the partition of `__transaction_state` behind the main one's, which
    mostly has another leader: a coordinator that waits for a marker of a broker sends that broker
    no other one meanwhile (TransactionMarkerChannelManager, up to 30 s).
    """
    main = transactional_id(fleet, source, slot)
    wanted = (_hashed(main) + 1) % _APART
    names = (f"{main}.spare-{number}" for number in count())
    return next(name for name in names if _hashed(name) % _APART == wanted)


def _hashed(name: str) -> int:
    """What the number of partitions is taken of (TransactionStateManager.partitionFor)."""
    found = 0
    for byte in name.encode():
        found = (31 * found + byte) & 0xFFFFFFFF
    return found if found < 1 << 31 else -found & 0x7FFFFFFF


def service_id(fleet: FleetName, service: str) -> str:
    """`mirrorfleet.<fleet>.<service>`: the group of a service's processes.

    It is the transactional id of the active one, too, where its writes are fenced.
    """
    return f"{ID_PREFIX}{fleet}.{service}"
