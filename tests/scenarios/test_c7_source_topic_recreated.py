"""C7: a source topic is deleted and created again under its name.

MirrorMaker 2: goes on at offset 0 of the new topic without a word. Here: topic ids differ, so the
partition stands still with a reason, by default; its neighbours do not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import faults_of
from tests.integration.mirror.making import create, delete, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_c7_a_recreated_topic_is_seen_by_its_id_and_nothing_is_mixed(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("c7", east, west, tmp_path, topics=["other:1"])
    create(east, "c7-again", 1)
    create(east, "c7-other", 1)
    put(east, "c7-again", numbered(0, 100))
    with fleet.sync(), fleet.mirror() as mirror:
        copied = wait_until(
            lambda: found if len(found := values(west, "east.c7-again")) == 100 else None,
            deadline_s=30,
            what="the copy",
            ignoring=(AssertionError,),
        )
        delete(east, "c7-again")
        create(east, "c7-again", 1)
        put(east, "c7-again", numbered(1_000, 1_100))
        put(east, "c7-other", numbered(0, 100))
        faults = wait_until(lambda: faults_of(mirror), deadline_s=60, what="the fault")
        report = fleet.judged(records=100)

    assert faults["c7-again", 0].startswith("source-recreated at source offset 100: ")
    assert values(west, "east.c7-again") == copied
    assert report.verdict is Verdict.PASS
