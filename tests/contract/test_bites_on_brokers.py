"""A kill is proven to have hit an open transaction, or the verdict is UNKNOWN."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from services.local.region import Region
from tests.faultkit.bites import OpenAt, abort_evidence, kill_in_transaction, open_transactions
from tests.faultkit.process import RunningProcess
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.waiting import NotInTimeError, wait_until
from tests.judge.reading import At, ends_of


def load(region: Region, topic: str, log: Path, *more: str) -> RunningProcess:
    """The traffic maker: its transactional producers are the same for the same seed."""
    command = ["-m", "tests.load", "--bootstrap", address(region), "--topics", f"{topic}:1"]
    process = RunningProcess(
        "load", [sys.executable, *command, "--seed", topic, "--rate", "3000", *more], log=log
    )
    wait_until(lambda: "ready" in process.text(), deadline_s=30, what="traffic to begin")
    return process


def test_a_kill_in_a_transaction_is_proven_by_the_marker_that_its_successor_causes(
    west: Region, tmp_path: Path
) -> None:
    topic = f"bites-{uuid4().hex[:8]}"
    places, data = [At(topic, 0)], data_directories(west)
    # one that is open all the time: those that come and go are open for a few ms a second
    process = load(west, topic, tmp_path / "load.log", "--left-open", "1")
    try:
        opened = kill_in_transaction(process, access(west), places, deadline_s=60)
    finally:
        process.clean_up()
    assert [each.partition for each in opened] == places
    successor = load(west, topic, tmp_path / "load.log", "--left-open", "1", "--seconds", "1")
    assert successor.wait_exit(60) == 0
    evidence = abort_evidence("kill -9", opened, data)
    assert evidence.bit, evidence.detail
    assert evidence.detail.startswith(f"abort marker in {topic}-0 @ ")
    wait_until(  # an abort is told a moment before its marker is there
        lambda: not open_transactions(access(west), places), deadline_s=30, what="the last marker"
    )
    end = ends_of(access(west), places)[places[0]].committed
    later = abort_evidence("kill -9", [OpenAt(places[0], end)], data)
    assert (later.bit, later.fault) == (False, "kill -9")


def test_a_worker_without_transactions_is_not_killed(west: Region, tmp_path: Path) -> None:
    topic = f"bites-{uuid4().hex[:8]}"
    process = load(west, topic, tmp_path / "load.log")
    try:
        with pytest.raises(NotInTimeError, match="load to have a transaction open"):
            kill_in_transaction(process, access(west), [], deadline_s=1)
        process.check_alive()
    finally:
        process.clean_up()
