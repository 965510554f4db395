"""What a broker can speak, and what its cluster has switched on.

Pure: filled from an ApiVersions answer, asked by everyone who builds a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from kio.schema.index import api_key_map

from mirrorfleet.core.errors import UnsupportedError

KAFKA_4_3_METADATA_LEVEL: Final = 30
"""Level of `metadata.version` 4.3-IV0: a broker that supports it is Kafka 4.3 or newer
(MetadataVersion.IBP_4_3_IV0; seen in the ApiVersions answer of 4.3.0)."""

_TRANSACTION_VERSION: Final = "transaction.version"
_METADATA_VERSION: Final = "metadata.version"


class VersionRange(NamedTuple):
    """Versions of one API, both ends included."""

    lowest: int
    highest: int


class TransactionVersion(IntEnum):
    """How transactions work (KIP-890)."""

    V1 = 1
    """The client adds partitions; an abort is an InitProducerId."""
    V2 = 2
    """The broker adds partitions; each transaction has an epoch of its own."""


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """One broker's answer: versions by API key, features it supports, features in force."""

    peer: str
    apis: Mapping[int, VersionRange]
    supported: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)

    def offers(self, api_key: int, version: int) -> bool:
        """Whether the broker speaks this version."""
        offered = self.apis.get(api_key)
        return offered is not None and offered.lowest <= version <= offered.highest

    def highest(self, api_key: int, lowest: int, highest: int) -> int:
        """The highest version that both sides speak, within ours.

        Raises: UnsupportedError when there is none.
        """
        offered = self.apis.get(api_key)
        if offered is not None:
            best = min(offered.highest, highest)
            if best >= max(offered.lowest, lowest):
                return best
        shown = f"{offered.lowest} to {offered.highest}" if offered else "none"
        raise UnsupportedError(
            f"{self.peer} speaks {api_name(api_key)} versions: {shown};"
            f" we need one of {lowest} to {highest}.",
            hint="mirrorfleet needs Kafka 3.0 or newer.",
        )

    @property
    def metadata_level(self) -> int:
        """The newest `metadata.version` that this broker's software knows; 0 before KRaft."""
        found = self.supported.get(_METADATA_VERSION)
        return found.highest if found is not None else 0


def transaction_version(
    finalized: Mapping[str, int], brokers: Iterable[ApiVersions]
) -> TransactionVersion:
    """V2 when the cluster has it in force and every broker is 4.3 or newer, else V1.

    4.0 to 4.2 can wedge at the end of an epoch (KAFKA-18660, 19367, 20090), so the software
    of *all* brokers counts, not the feature alone. No broker known is V1.
    """
    levels = [broker.metadata_level for broker in brokers]
    in_force = finalized.get(_TRANSACTION_VERSION, 0) >= TransactionVersion.V2
    if in_force and levels and min(levels) >= KAFKA_4_3_METADATA_LEVEL:
        return TransactionVersion.V2
    return TransactionVersion.V1


def api_name(api_key: int) -> str:
    """Kafka's name of an API: "EndTxn" for 26."""
    name = api_key_map.get(api_key)
    return name.title().replace("_", "") if name is not None else f"API {api_key}"
