"""Answers to DescribeTransactions, byte by byte."""

from __future__ import annotations

import struct

from mirrorfleet.kafka.codec import decode
from mirrorfleet.kafka.described_transactions import DescribeTransactionsResponse


def test_an_id_that_was_taken_and_never_used_is_read() -> None:
    name, state = b"\x02m", b"\x06Empty"
    one = struct.pack(">h", 0) + name + state + struct.pack(">iqqh", 15_000, -1, 7, 3)
    frame = struct.pack(">i", 0) + b"\x02" + one + b"\x01\x00" + b"\x00"

    (found,) = decode(DescribeTransactionsResponse, frame, 0).transaction_states

    assert (found.transaction_state, found.transaction_start_time) == ("Empty", -1)
    assert (found.producer_id, found.producer_epoch, found.topics) == (7, 3, ())
