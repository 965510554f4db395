from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from spark.jobs.schedule import STOPPED, Schedule, Task, parser, tasks, trouble
from spark.output import NOT_INTACT


def test_the_jobs_are_processes_of_their_own_with_the_options_of_the_schedule() -> None:
    asked = ["--estate", "e.yaml", "--target", "west", "--output", "out", "--hours", "2"]

    found = tasks(parser().parse_args([*asked, "--audit", "east:orders", "--master", "local[1]"]))

    fleet = ("--estate", "e.yaml", "--target", "west", "--master", "local[1]")
    python = (sys.executable, "-m")
    output = ("--output", "out")
    about = ("--source", "east", "--topic", "orders")
    window = ("--hours", "2.0", "--keep-days", "30.0")
    assert found == [
        Task("compact_offset_syncs", (*python, "spark.jobs.compact_offset_syncs", *fleet)),
        Task("slo_report", (*python, "spark.jobs.slo_report", *fleet, *output, *window)),
        Task(
            "integrity_audit east:orders",
            (*python, "spark.jobs.integrity_audit", *fleet, *about, *output),
        ),
    ]


def state(alive_ms: int = 100_000, **exits: int) -> dict[str, object]:
    jobs = {name: {"ended_ms": 1, "exit": code} for name, code in exits.items()}
    return {"v": 1, "alive_ms": alive_ms, "jobs": jobs}


@pytest.mark.parametrize(
    ("known", "now_ms", "said"),
    [
        (state(), 100_000, None),
        (state(slo_report=0), 160_000, None),
        (state(), 160_001, "the schedule has been silent for 60 s"),
        (state(slo_report=0, compact=1), 100_000, "compact ended with 1"),
        ({"v": 2}, 0, "schedule.json is not what this release writes"),
    ],
)
def test_a_silent_schedule_and_a_failed_job_are_trouble(
    known: dict[str, object], now_ms: int, said: str | None
) -> None:
    assert trouble(known, now_ms) == said


class Turns(threading.Event):
    """Ends the schedule after some rounds; a round lasts ten minutes by a clock that only grows."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._left = rounds
        self.now_s = 5.0
        self.wall_s = 1e9

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self.now_s += 600.0
        self.wall_s = 1_000.0  # the machine learns what time it is
        self._left -= 1
        if not self._left:
            self.set()
        return self.is_set()


def test_a_clock_that_is_set_back_keeps_no_job_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[float] = []
    stop = Turns(rounds=13)  # two hours and what is before
    made = Schedule(
        [Task("a", ())], 3600.0, tmp_path, clock=lambda: stop.now_s, wall=lambda: stop.wall_s
    )

    def wait(*_: object) -> int:
        ran.append(stop.now_s)
        return 0

    monkeypatch.setattr(made, "_wait", wait)
    made.serve(stop)

    assert ran == [5.0, 3605.0, 7205.0]


@pytest.mark.parametrize(
    ("code", "lasts_s", "due_s"),
    [
        pytest.param(0, 3_000.0, 3_600.0, id="done"),
        pytest.param(NOT_INTACT, 3_000.0, 3_600.0, id="done, and not intact"),
        pytest.param(1, 3_000.0, 3_300.0, id="not done"),
        pytest.param(STOPPED, 3_600.0, 7_200.0, id="ended, for it took too long"),
    ],
)
def test_a_job_comes_again_soon_only_where_that_may_help_and_never_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, lasts_s: float, due_s: float
) -> None:
    now = [0.0]
    made = Schedule([Task("a", ())], 3600.0, tmp_path, clock=lambda: now[0])

    def wait(*_: object) -> int:
        now[0] += lasts_s
        return code

    monkeypatch.setattr(made, "_wait", wait)
    made.serve(Turns(rounds=1))

    assert made.due == {"a": due_s}
    said = trouble({"alive_ms": 0, "jobs": made.ended}, 0)
    assert said == (f"a ended with {code}" if code else None)


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_schedule_without_a_time_between_is_refused(
    minutes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--output", "out", "--every", minutes])
    assert "--every" in capsys.readouterr().err
