"""What answers of clusters mean for the groups of a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError

if TYPE_CHECKING:
    from mirrorfleet.kafka.groups import GroupOffsets
    from mirrorfleet.kafka.offsets import ListedOffset


def refusal(answer: ListedOffset | BrokerError | None) -> str:
    """Why a broker will not answer at the next look either; "" where it may."""
    return str(answer) if isinstance(answer, BrokerError) and not answer.retriable else ""


def is_silence(answer: GroupOffsets | BrokerError | None) -> bool:
    """Whether a broker did not answer at all."""
    return isinstance(answer, BrokerError) and answer.code is ErrorCode.NETWORK_EXCEPTION
