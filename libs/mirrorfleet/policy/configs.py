"""Which topic configs follow the source, as MM2's DefaultConfigPropertyFilter and beyond. No I/O.

Only what was set on the source topic itself follows; a default of the source's brokers never
becomes an override of the target's topic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_MM2: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""`config.properties.exclude` of MM2: matters of the cluster that a topic lives in."""

_EXACTNESS: Final = frozenset(
    {
        "compression.type",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
    }
)
"""The copy takes batches as they are, of any age; another value would re-encode or refuse them."""

_LOCAL_PREFIXES: Final = ("remote.", "local.")
"""Tiered storage: what a target without it refuses, the whole topic with it."""

MAX_BYTES: Final = "max.message.bytes"
"""Raised, never lowered: batches of the old size may still wait to be copied."""


def follows(name: str, excluded: Collection[str] = ()) -> bool:
    """Whether the target's topic takes the value of the source's. `excluded` are the rule's."""
    never = name in _MM2 or name in _EXACTNESS or name.startswith(_LOCAL_PREFIXES)
    return not never and name != MAX_BYTES and name not in excluded
