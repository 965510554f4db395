"""The schedule with small programs in place of jobs; needs no Spark session."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirrorfleet.core.errors import RefusedError
from spark.jobs import running as jobs
from spark.jobs import schedule
from spark.jobs.schedule import Schedule, Task, check
from tests.faultkit.waiting import wait_until

HOUR_S = 3600.0


def task(name: str, program: str) -> Task:
    return Task(name, (sys.executable, "-c", program))


@contextmanager
def running(made: Schedule) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=made.serve, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def wait_exits(folder: Path, wanted: dict[str, int]) -> None:
    def look() -> bool:
        file = folder / schedule.STATE
        jobs = json.loads(file.read_text())["jobs"] if file.exists() else {}
        return {name: last["exit"] for name, last in jobs.items()} == wanted

    wait_until(look, deadline_s=30, what=f"exit codes {wanted}")


def test_a_job_that_fails_keeps_no_other_from_its_turn_and_comes_again(tmp_path: Path) -> None:
    now = [1_000.0]
    log = tmp_path / "log"
    write = f"open({str(log)!r}, 'a').write('{{}} ')"
    mended = tmp_path / "mended"
    fails = f"import os, sys; {write.format('bad')}; sys.exit(not os.path.exists({str(mended)!r}))"
    jobs = [task("bad", fails), task("good", write.format("good"))]
    made = Schedule(jobs, HOUR_S, tmp_path, clock=lambda: now[0])

    with running(made):
        wait_exits(tmp_path, {"bad": 1, "good": 0})
        mended.touch()
        now[0] += schedule.RETRY_S
        wait_exits(tmp_path, {"bad": 0, "good": 0})

    assert log.read_text() == "bad good bad "


def test_a_job_that_hangs_is_ended_when_its_time_is_over_and_with_the_schedule(
    tmp_path: Path,
) -> None:
    now = [1_000.0]
    made = Schedule(
        [task("hangs", "import time; time.sleep(600)")], HOUR_S, tmp_path, clock=lambda: now[0]
    )

    with running(made):
        wait_until((tmp_path / schedule.STATE).exists, deadline_s=30, what="the state")
        now[0] += HOUR_S
        wait_exits(tmp_path, {"hangs": schedule.STOPPED})


def test_the_check_reads_what_the_schedule_wrote(tmp_path: Path) -> None:
    assert check(tmp_path) == 1
    with running(Schedule([task("good", "")], HOUR_S, tmp_path)):
        wait_exits(tmp_path, {"good": 0})
        assert check(tmp_path) == 0


@pytest.mark.parametrize(
    ("error", "code"), [(jobs.NotIntactError("found"), 2), (RefusedError("not asked"), 1)]
)
def test_a_job_that_found_a_fault_ends_with_another_code_than_one_that_could_not_look(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def work(_job: jobs.Job) -> None:
        raise error

    estate = SimpleNamespace(cluster=lambda _alias: None)
    monkeypatch.setattr(jobs, "load_estate", lambda *_: estate)
    monkeypatch.setattr(jobs, "open_session", lambda *_, **_options: None)

    assert jobs.run("audit", work, ["--estate", "e.yaml", "--target", "west"]) == code
