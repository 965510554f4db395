"""Lag against the truth on real brokers, while the mirror lives, stops, crawls and refuses."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import pytest

from mirrorfleet.records.heartbeat import TOPIC as HEARTBEATS
from mirrorfleet.records.samples import Verdict
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.waiting import wait_until
from tests.integration.lag.fleet import lag_fleet
from tests.integration.lag.pacing import Truth, pace, samples_of, truths
from tests.integration.mirror.fleet import Fleet, wait_faults
from tests.integration.mirror.making import Made, alter_topic, commit, create, put, transactional

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.records.samples import Sample
    from services.local.region import Region

TOPIC, QUIET = "lag-paced", "lag-quiet"
PARTITIONS = 3
FAULTY = 1
RATE = 50.0
LIMIT = 20_000
ALLOWED_MS = 1_000


class Phases:
    """What was done when, to say which samples belong to it."""

    def __init__(self) -> None:
        self._began: list[tuple[str, int]] = []

    def begin(self, name: str) -> None:
        self._began.append((name, now_ms()))

    def of(self, sample: Sample) -> str:
        names = [name for name, began in self._began if began <= sample.time_ms]
        return names[-1] if names else "before"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def crawl(mirror: ServiceProcess, seconds: float) -> None:
    """Let the worker run only an eighth of the time."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        mirror.freeze()
        hold_sync(1.4, reason="a worker that gets little of the processor")
        mirror.thaw()
        hold_sync(0.2, reason="its turn")


def verdict_of(lag: ServiceProcess, partition: int) -> str:
    rows = lag.get(f"/lag?topic={TOPIC}").json()
    return next((row["verdict"] for row in rows if row["partition"] == partition), "")


def wait_verdict(lag: ServiceProcess, partition: int, *wanted: Verdict) -> None:
    wait_until(
        lambda: verdict_of(lag, partition) in wanted,
        deadline_s=60,
        what=f"partition {partition} to be {wanted}",
        ignoring=(httpx.TransportError,),
    )


def last_of_quiet(fleet: Fleet) -> tuple[int | None, int | None, int] | None:
    """Offsets and milliseconds behind, and the position, as they were told last."""
    found = samples_of(fleet.west, fleet.name, QUIET)
    return (found[-1].lag_records, found[-1].time_lag_ms, found[-1].next_source) if found else None


class Scene:
    """A fleet at work, and what is done to it."""

    def __init__(self, fleet: Fleet, running: ExitStack) -> None:
        self.fleet, self.running, self.phases = fleet, running, Phases()
        with fleet.sync() as sync:
            wait_until(
                lambda: sync.status()["partitions"] == PARTITIONS + 2,
                deadline_s=30,
                what="the catalog",
            )
        alter_topic(fleet.west, f"east.{TOPIC}", max_message_bytes=LIMIT)
        self.mirror = running.enter_context(fleet.mirror())
        self.lag = self.start_lag()

    def start_lag(self) -> ServiceProcess:
        logs = self.fleet.directory / "logs"
        found = service("lag", estate=self.fleet.estate, target="west", logs=logs)
        return self.running.enter_context(found)

    def live(self) -> None:
        self.lag.wait_ready(60)
        wait_verdict(self.lag, 0, Verdict.OK)
        self.phases.begin("live")
        hold_sync(6, reason="live copying")

    def stopped(self) -> None:
        """The mirror ends, and `lag` is killed and started again meanwhile."""
        self.phases.begin("stopped")
        self.mirror.terminate()
        assert self.mirror.wait_exit(20) == 0
        wait_verdict(self.lag, 0, Verdict.STOPPED)
        hold_sync(4, reason="a stopped mirror")
        assert "workers have been silent" in self.lag.get("/readyz").text
        self.lag.kill()
        self.lag = self.start_lag()
        wait_verdict(self.lag, 0, Verdict.STOPPED)
        self.mirror = self.running.enter_context(self.fleet.mirror("again"))
        wait_verdict(self.lag, 0, Verdict.OK)
        self.lag.wait_ready(30)

    def slowed(self) -> None:
        self.phases.begin("slowed")
        crawl(self.mirror, 8)

    def faulted(self) -> None:
        self.phases.begin("faulted")
        put(self.fleet.east, TOPIC, [Made(b"x" * 3 * LIMIT, b"k", FAULTY)])
        wait_faults(self.mirror, (TOPIC, FAULTY))
        wait_verdict(self.lag, FAULTY, Verdict.FAULTED)
        hold_sync(5, reason="one partition that stands still")

    def idle(self) -> None:
        self.phases.begin("idle")
        commit(transactional(self.fleet.east, QUIET), QUIET, [Made(b"then a marker")])
        wait_verdict(self.lag, 0, Verdict.IDLE)
        wait_until(
            lambda: last_of_quiet(self.fleet) == (0, 0, 2),
            deadline_s=60,
            what="the sample that says that the quiet topic is copied",
        )
        hold_sync(2, reason="an idle source")


@pytest.mark.timeout(300)
def test_time_lag_is_within_a_second_of_the_truth_at_each_sample(
    east: Region, west: Region, tmp_path: Path
) -> None:
    create(east, TOPIC, PARTITIONS, message_timestamp_type="LogAppendTime")
    create(east, QUIET)
    create(east, HEARTBEATS)
    fleet = lag_fleet("lagtruth", east, west, tmp_path, topics=["lag-.*", HEARTBEATS], silent_s=10)
    with ExitStack() as running:
        scene = Scene(fleet, running)
        with pace(east, TOPIC, PARTITIONS, rate=RATE):
            scene.live()
            scene.stopped()
            scene.slowed()
            scene.faulted()
        scene.idle()

    phases = scene.phases
    truth = truths(east, TOPIC, PARTITIONS)
    found = samples_of(west, fleet.name, TOPIC)
    report = compared(found, truth, phases)
    print("\n".join(str(line) for line in report.lines))
    assert report.wrong == []
    assert report.phases >= {"live", "stopped", "slowed", "faulted", "idle"}
    assert report.nulls == []

    beats = [one.propagation_ms for one in found if phases.of(one) in {"live", "faulted"}]
    assert any(beat is not None and 0 <= beat < ALLOWED_MS for beat in beats), beats
    assert last_of_quiet(fleet) == (0, 0, 2)


@dataclass
class Compared:
    """Samples against the truth: a line a phase, and what is too far from it."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    phases: set[str] = field(default_factory=set)
    nulls: list[Sample] = field(default_factory=list)
    """Samples that say nothing, once the first records were seen to come."""


def compared(found: list[Sample], truth: list[Truth], phases: Phases) -> Compared:
    done = Compared()
    by_phase: dict[str, list[tuple[int, int]]] = {}
    for one in found:
        phase = phases.of(one)
        true_ms = truth[one.partition].lag_ms(one.next_source, one.time_ms)
        if one.time_lag_ms is None:
            done.nulls += [one] if phase != "before" else []
            continue
        error_ms = abs(one.time_lag_ms - true_ms)
        by_phase.setdefault(phase, []).append((error_ms, true_ms))
        if error_ms > ALLOWED_MS:
            done.wrong.append(f"{phase}: said {one.time_lag_ms}, is {true_ms}: {one}")
    for phase, pairs in by_phase.items():
        error_ms, true_ms = (max(each) for each in zip(*pairs, strict=True))
        done.phases.add(phase)
        done.lines.append(
            f"{phase}: {len(pairs)} samples, worst error {error_ms} ms, longest true lag"
            f" {true_ms / 1000:.1f} s"
        )
    return done
