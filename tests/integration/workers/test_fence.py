"""`mirrorfleet fence`: a link stands still, also for a worker that was out of reach meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faultkit.bites import abort_evidence, freeze_in_transaction
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import ROOT
from tests.faultkit.regions import access, data_directories
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import slots_of
from tests.integration.workers.fleet import STEADY_S, Workers, under_load
from tests.judge.reading import ends_of
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess


def fence(fleet: Workers, *more: str) -> list[object]:
    """Run the command and give the state of each slot."""
    command = [sys.executable, "-m", "services.cli", "fence", "east->west", *more]
    command += ["--estate", str(fleet.estate), "-o", "json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=90)
    assert run.returncode == 0, run.stdout + run.stderr
    return [row["state"] for row in json.loads(run.stdout)]


def ends(fleet: Workers) -> list[int]:
    return [each.committed for each in ends_of(access(fleet.west), fleet.watched).values()]


def tells(worker: ServiceProcess) -> bool:
    """Whether each slot that a worker has says who fenced it and how that ends."""
    troubles = [str(slot["trouble"]) for slot in slots_of(worker)]
    return bool(troubles) and all("wrong data" in one and "--lift" in one for one in troubles)


@pytest.mark.timeout(200)
def test_a_fenced_link_stands_still_until_the_fence_is_lifted_also_for_a_worker_out_of_reach(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with under_load("fenced", east, west, tmp_path) as fleet:
        lost, present = fleet.start("lost"), fleet.start("present")
        fleet.wait_shared("lost", "present")
        opened = freeze_in_transaction(lost, access(west), fleet.copied_by("lost"), deadline_s=30)
        fenced = fence(fleet, "--reason", "wrong data")
        before = ends(fleet)
        lost.thaw()
        hold_sync(STEADY_S * 2, reason="both workers could copy now")
        after = ends(fleet)
        wait_until(lambda: tells(present), deadline_s=30, what="each slot to tell of the fence")
        lifted = fence(fleet, "--lift")
        fleet.wait_all_copied("lost", "present")
        hold_sync(STEADY_S, reason="load after the fence")
        fleet.stop_load()
        evidence = abort_evidence("fence", opened, data_directories(west))
        report = fleet.judged_under_load()

    assert (fenced, lifted) == (["fenced"] * 8, ["may copy"] * 8)
    assert after == before
    assert (report.verdict, evidence.bit) == (Verdict.PASS, True), evidence
