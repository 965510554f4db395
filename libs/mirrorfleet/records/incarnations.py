"""Why a partition has another incarnation, and where one begins: words of the catalog.

They are on the wire and in the ledger; every module that writes or compares one takes it from here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

FROM_THE_START: Final = "earliest"
AT_THE_END: Final = "latest"
AT_OFFSET: Final = "offset"
AT_TIMESTAMP: Final = "timestamp"
"""The last two with a number behind a colon."""


class LossCause(StrEnum):
    """What was lost when an incarnation ended (`CatalogLoss.cause`)."""

    SOURCE_TRUNCATED = "source-truncated"
    SOURCE_RECREATED = "source-recreated"
    TARGET_TRUNCATED = "target-truncated"
    TARGET_RECREATED = "target-recreated"
    REWOUND = "rewound"
    """Nothing: an operator has records copied again."""


def start_at(offset: int) -> str:
    """The start (`CatalogPartition.start`) at a source offset."""
    return f"{AT_OFFSET}:{offset}"


def offset_of(start: str) -> int | None:
    """The source offset that a start says; None where it is another kind of word."""
    word, _, value = start.partition(":")
    return int(value) if word == AT_OFFSET and value.isascii() and value.isdigit() else None
