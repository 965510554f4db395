"""Two builds in one fleet: a rolling upgrade, the way back, and the switch after which none is.

The next build is this one with a doctored format of positions (`next_build.py`).
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.records import catalog
from mirrorfleet.records.catalog import CatalogConfig
from tests.faultkit.bites import abort_evidence, kill_in_transaction
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import ServiceProcess
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import Made, put, read
from tests.integration.workers.timeline import copied_by
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import RATE, READY_S, SECONDS, SLOTS, Fleet, wait_shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.region import Region

ROOT: Final = Path(__file__).resolve().parents[2]
NEXT: Final = "tests.versions.next_build"
EXIT_S: Final = 20.0


@contextmanager
def next_mirror(fleet: Fleet, name: str) -> Iterator[ServiceProcess]:
    """A worker of the next build."""
    logs = fleet.logs / name
    logs.mkdir(parents=True, exist_ok=True)
    arguments = ["--estate", str(fleet.estate), "--target", "west", "--http-port", "0"]
    process = ServiceProcess(
        f"next-{name}",
        [sys.executable, "-m", NEXT, "mirror", *arguments],
        log=logs / "next.log",
    )
    try:
        process.wait_ready(READY_S)
        yield process
    finally:
        process.clean_up()


def command(fleet: Fleet, *arguments: str, module: str = NEXT) -> subprocess.CompletedProcess[str]:
    """`mirrorfleet format` of the next build, or of this one."""
    program = [module, "cli"] if module == NEXT else [module]
    where = ["--estate", str(fleet.estate), "--target", "west"]
    return subprocess.run(
        [sys.executable, "-m", *program, "format", *where, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def versions_of_positions(fleet: Fleet) -> set[int]:
    """First byte of every stored position."""
    found = read(fleet.target, fleet.control("positions"), SLOTS)
    return {each.value[0] for slot in found for each in slot if each.value is not None}


@pytest.mark.timeout(400)
def test_a_fleet_is_upgraded_taken_back_upgraded_again_and_switched_under_load(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("formats", east, west, tmp_path, topics=["orders:12", "clicks:12"])
    with fleet.sync(), traffic(address(east), fleet.topics, rate=RATE) as load:
        with fleet.mirror("old") as old, next_mirror(fleet, "new") as new:
            wait_shared(old, new)
            hold_sync(SECONDS / 4, reason="both builds copy")
            too_early = command(fleet, "--raise-to", "3")
            copied = copied_by(new, west, fleet.name)
            opened = kill_in_transaction(new, access(west), copied, deadline_s=60)
            wait_shared(old)
            hold_sync(SECONDS / 4, reason="taken back: the old build goes on alone")
        before = versions_of_positions(fleet)
        with next_mirror(fleet, "again") as new:
            wait_shared(new)
            raised = command(fleet, "--raise-to", "3")
            wait_until(lambda: versions_of_positions(fleet) >= {2}, deadline_s=30, what="version 2")
            hold_sync(SECONDS / 4, reason="the new format under load")
            with fleet.starting("too-old") as late:
                late.wait_exit(EXIT_S)
                too_old = late.text()
            lower = command(fleet, "--raise-to", "1")
        with next_mirror(fleet, "restarted") as new:
            wait_shared(new)
            load.stop()
            evidence = [
                abort_evidence("kill -9", opened, fleet.data),
                Evidence("new format", bit=2 in versions_of_positions(fleet)),
            ]
            report = fleet.judged(evidence, records=int(RATE * SECONDS / 2))

    assert report.verdict is Verdict.PASS
    assert before == {1}
    assert (too_early.returncode, lower.returncode) == (1, 1)
    assert "1 workers of fleet formats do not know format level 3" in too_early.stderr
    assert raised.returncode == 0, raised.stderr
    assert "is not known to this build" in too_old
    assert "already" in lower.stderr


@pytest.mark.timeout(240)
def test_every_service_that_reads_the_catalog_refuses_a_level_that_it_does_not_know(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("ahead", east, west, tmp_path, topics=["orders:2"])
    with fleet.sync():
        pass
    key, value = catalog.encode(CatalogConfig(generation=99, format_level=3))
    put(west, fleet.control("catalog"), [Made(value, key=key)])
    answers = {}
    where = ["--estate", str(fleet.estate), "--target", "west", "--http-port", "0"]
    for name in ("mirror", "sync", "checkpoint", "lag"):
        process = ServiceProcess(
            name,
            [sys.executable, "-m", f"services.{name}", *where],
            log=tmp_path / f"{name}.log",
        )
        try:
            answers[name] = (process.wait_exit(EXIT_S) != 0, "version 3" in process.text())
        finally:
            process.clean_up()
    shown = command(fleet, module="services.cli")

    assert answers == dict.fromkeys(("mirror", "sync", "checkpoint", "lag"), (True, True))
    assert shown.returncode == 1
    assert "format level of the fleet: version 3 is not known to this build (it knows 2)" in (
        shown.stderr
    )


@pytest.mark.timeout(240)
def test_events_progress_and_samples_of_a_newer_build_are_skipped_and_the_fleet_goes_on(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("skipping", east, west, tmp_path, topics=["orders:2"])
    with fleet.sync(), traffic(address(east), fleet.topics, rate=1_000) as load:
        for kind in ("events", "progress", "samples", "reports"):
            newer = Made(b'{"v":99,"kind":"from tomorrow"}', key=b'{"v":99}')
            put(west, fleet.control(kind), [newer, Made(b"\x63binary", key=b"\x63")])
        with fleet.mirror():
            hold_sync(2.0, reason="copying beside records of tomorrow")
            load.stop()
            report = fleet.judged(records=1_000)
        shown = subprocess.run(
            [
                sys.executable,
                "-m",
                "services.cli",
                "status",
                "--estate",
                str(fleet.estate),
                "-o",
                "json",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert report.verdict is Verdict.PASS
    assert "Traceback" not in shown.stderr
    assert "orders" in shown.stdout, shown.stderr
