"""C9: transactions that were aborted at the source.

MirrorMaker 2: copies them by default (its consumer reads uncommitted). Here: never copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.mirror.making import abort, commit, create, numbered, transactional, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_c9_records_of_aborted_transactions_are_not_copied(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("c9", east, west, tmp_path, topics=["payments:1"])
    create(east, "c9-payments", 1)
    producer = transactional(east, "c9")
    commit(producer, "c9-payments", numbered(0, 10))
    abort(producer, "c9-payments", numbered(500, 600))
    commit(producer, "c9-payments", numbered(10, 20))
    with fleet.sync(), fleet.mirror():
        report = fleet.judged(records=20)

    assert report.verdict is Verdict.PASS
    assert values(west, "east.c9-payments") == [b"%020d" % number for number in range(20)]
