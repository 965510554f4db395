"""What version to speak, and which transactions to use."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import UnsupportedError
from mirrorfleet.kafka.versions import (
    ApiVersions,
    TransactionVersion,
    VersionRange,
    api_name,
    transaction_version,
)

V1, V2 = TransactionVersion.V1, TransactionVersion.V2


def broker(metadata_level: int) -> ApiVersions:
    supported = {"metadata.version": VersionRange(7, metadata_level)} if metadata_level else {}
    return ApiVersions("b:9092", {1: VersionRange(4, 17)}, supported)


@pytest.mark.parametrize(
    ("ours", "spoken"), [((12, 18), 17), ((12, 15), 15), ((4, 4), 4), ((1, 99), 17)]
)
def test_the_highest_version_of_both_sides_is_spoken(ours: tuple[int, int], spoken: int) -> None:
    assert broker(0).highest(1, *ours) == spoken


@pytest.mark.parametrize(
    ("api", "lowest", "highest", "text"),
    [
        (1, 18, 20, "b:9092 speaks Fetch versions: 4 to 17; we need one of 18 to 20."),
        (1, 0, 3, "b:9092 speaks Fetch versions: 4 to 17; we need one of 0 to 3."),
        (26, 5, 5, "b:9092 speaks EndTxn versions: none; we need one of 5 to 5."),
    ],
)
def test_no_common_version_says_what_each_side_speaks(
    api: int, lowest: int, highest: int, text: str
) -> None:
    with pytest.raises(UnsupportedError, match=text):
        broker(0).highest(api, lowest, highest)


@pytest.mark.parametrize(
    ("level", "metadata_levels", "expected"),
    [
        (2, [30], V2),
        (2, [30, 31, 30], V2),
        (2, [30, 29], V1),  # one broker is 4.2 still
        (2, [25], V1),  # 4.0 has it in force, and can wedge
        (1, [30], V1),
        (0, [30], V1),
        (0, [21], V1),  # 3.9
        (2, [0], V1),  # before KRaft
        (2, [], V1),
    ],
)
def test_transactions_v2_need_the_feature_and_every_broker_to_be_4_3(
    level: int, metadata_levels: list[int], expected: TransactionVersion
) -> None:
    finalized = {"transaction.version": level} if level else {}
    assert transaction_version(finalized, map(broker, metadata_levels)) is expected


def test_apis_are_called_by_kafkas_names() -> None:
    names = {key: api_name(key) for key in (0, 24, 36, 999)}
    assert names == {0: "Produce", 24: "AddPartitionsToTxn", 36: "SaslAuthenticate", 999: "API 999"}
