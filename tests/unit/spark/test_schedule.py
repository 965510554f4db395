from __future__ import annotations

import sys

import pytest

from spark.jobs.schedule import Task, parser, tasks, trouble


def test_the_jobs_are_processes_of_their_own_with_the_options_of_the_schedule() -> None:
    asked = ["--estate", "e.yaml", "--target", "west", "--output", "out", "--hours", "2"]

    found = tasks(parser().parse_args([*asked, "--audit", "east:orders", "--master", "local[1]"]))

    fleet = ("--estate", "e.yaml", "--target", "west", "--master", "local[1]")
    python = (sys.executable, "-m")
    output = ("--output", "out")
    about = ("--source", "east", "--topic", "orders")
    assert found == [
        Task("compact_offset_syncs", (*python, "spark.jobs.compact_offset_syncs", *fleet)),
        Task("slo_report", (*python, "spark.jobs.slo_report", *fleet, *output, "--hours", "2.0")),
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
