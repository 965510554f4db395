"""Source brokers far away: which are, how many connections they may have, what they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.seats import most_seats
from mirrorfleet.kafka.fetcher import FetchPoint
from mirrorfleet.kafka.low_water import FAR_S
from mirrorfleet.kafka.opening import time_again
from mirrorfleet.slots.waits import ANSWER_S

if TYPE_CHECKING:
    from mirrorfleet.copying.stripes import Piece
    from mirrorfleet.kafka.connection import Connection
    from mirrorfleet.slots.runner import SlotRunner


async def is_far(connection: Connection) -> bool:
    """Whether several connections are worth it; a broker that was only busy at first is near."""
    if connection.rtt_s >= FAR_S:
        await time_again(connection, ANSWER_S)
    return connection.rtt_s >= FAR_S


def most_connections(runner: SlotRunner) -> int:
    """How many there may be to one broker."""
    tls = runner.source.settings.security.protocol.tls
    return most_seats(runner.settings.fetch_connections, tls=tls)


def point_of(piece: Piece) -> FetchPoint:
    """Where its next answer begins."""
    partition = piece.partition
    return FetchPoint(
        topic=partition.entry.source_topic,
        topic_id=partition.identity.source_topic_id,
        partition=partition.identity.partition,
        offset=piece.at,
        leader_epoch=piece.leader_epoch,
        last_fetched_epoch=partition.walked_epoch if piece.at == partition.walked_to else -1,
        max_bytes=piece.ask_bytes,
    )
