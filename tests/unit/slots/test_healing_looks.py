"""What one look at the source's leader says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.loss import Look
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.offsets import EpochEnd, ListedOffset
from mirrorfleet.slots import healing
from tests.unit.copying.making import partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


@pytest.mark.parametrize(
    ("told", "end", "lacks"),
    [
        (EpochEnd(5, 40), 40, False),
        (EpochEnd(4, 120), 120, True),
        (EpochEnd(-1, -1), -1, False),
        (BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, "later"), -1, False),
    ],
    ids=["ends before", "is not there", "not told", "refused"],
)
async def test_a_look_tells_whether_the_log_has_the_epoch_that_was_read_last(
    monkeypatch: pytest.MonkeyPatch, *, told: EpochEnd | BrokerError, end: int, lacks: bool
) -> None:
    async def listed(
        _: object, specs: dict[TopicPartition, object], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        return {at: ListedOffset(offset=130, timestamp=0, leader_epoch=6) for at in specs}

    async def lineage(
        _: object, epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd | BrokerError]:
        assert set(epochs.values()) == {5}
        return dict.fromkeys(epochs, told)

    monkeypatch.setattr(healing, "list_offsets", listed)
    monkeypatch.setattr(healing, "offset_for_leader_epoch", lineage)
    partition = partition_of(slot())
    partition.walked_epoch = 5

    found = await healing._look(cast("SlotRunner", SimpleNamespace(source=None)), partition)

    assert found == Look(130, 130, end, lacks)
