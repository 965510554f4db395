"""A fleet of a test's own on regions that others share: its estate, its services, what it says."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import yaml

from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import values
from tests.judge.judging import Copy, Pair, judge
from tests.judge.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from services.local.region import Region
    from tests.judge.log import Log
    from tests.judge.reading import At
    from tests.judge.verdict import Demands, Report

READY_S: Final = 60.0
FLOWING_S: Final = 60.0


class Fleet:
    """One link east -> west with prefix naming."""

    def __init__(
        self,
        name: str,
        east: Region,
        west: Region,
        directory: Path,
        *,
        rules: Sequence[Mapping[str, object]],
        slots: int = 4,
        sync_s: float = 0.5,
    ) -> None:
        self.name, self.east, self.west = name, east, west
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.estate = directory / "estate.yaml"
        # targets are made peculiar on purpose: their configs must not follow the source's
        own = [{"configs": "ignore", **rule} for rule in rules]
        link = {"from": "east", "to": "west", "slots": slots, "rules": own}
        estate = {
            "estate": name,
            "clusters": {
                "east": {"bootstrap": address(east)},
                "west": {"bootstrap": address(west), "fleet": name},
            },
            "links": [link],
            "services": {"sync": {"period_s": sync_s}},
        }
        self.estate.write_text(yaml.safe_dump(estate))

    def control(self, kind: str) -> str:
        """The name of a control topic."""
        return f"__mirrorfleet.{self.name}.{kind}"

    @contextmanager
    def sync(self) -> Iterator[ServiceProcess]:
        """The fleet's sync, after its first look."""
        logs = self.directory / "logs"
        with service("sync", estate=self.estate, target="west", logs=logs) as process:
            process.wait_ready(READY_S)
            yield process

    @contextmanager
    def mirror(self, name: str = "a", *, through: Sequence[str] = ()) -> Iterator[ServiceProcess]:
        """A worker, ready or soon to be; `name` keeps its log apart from other workers'."""
        logs = self.directory / "logs" / name
        with service(
            "mirror", estate=self.estate, target="west", logs=logs, through=through
        ) as process:
            yield process

    def judged(
        self,
        topics: Sequence[str],
        *,
        starts: Mapping[At, int] | None = None,
        patience_s: float = 30,
        earlier: Mapping[At, Log] | None = None,
        gaps: Mapping[At, Sequence[tuple[int, int]]] | None = None,
        demands: Demands | None = None,
        ran_s: float | None = None,
    ) -> Report:
        """The judge's word on the copies of these topics."""
        report = judge(
            Copy(
                source=access(self.east),
                target=access(self.west),
                pairs=[Pair(topic, f"east.{topic}") for topic in topics],
                starts=starts or {},
                patience_s=patience_s,
                earlier=earlier or {},
                gaps=gaps or {},
            ),
            demands=demands,
            ran_s=ran_s,
        )
        print(render(report))
        return report

    def events(self, kind: str) -> list[dict[str, object]]:
        """The fleet's events of a kind, in order; one that was written twice is one."""
        written = dict.fromkeys(values(self.west, self.control("events")))
        found = [json.loads(value) for value in written if value]
        return [event for event in found if event["kind"] == kind]


def slots_of(mirror: ServiceProcess) -> list[dict[str, object]]:
    """The slots of `/status`."""
    found = mirror.status()["slots"]
    assert isinstance(found, list)
    return found


def faults_of(mirror: ServiceProcess) -> dict[tuple[str, int], str]:
    """Partitions that stand still, and why, as `/status` has it."""
    found = {}
    for slot in slots_of(mirror):
        faults = slot["faults"]
        assert isinstance(faults, list)
        for fault in faults:
            found[fault["topic"], fault["partition"]] = fault["fault"]
    return found


def wait_faults(mirror: ServiceProcess, *partitions: tuple[str, int]) -> dict[tuple[str, int], str]:
    """Wait until exactly these partitions stand still."""
    return (
        wait_until(
            lambda: found if set(found := faults_of(mirror)) == set(partitions) else None,
            deadline_s=FLOWING_S,
            what=f"faults of {partitions}",
        )
        or {}
    )


def wait_states(mirror: ServiceProcess, state: str, count: int) -> list[dict[str, object]]:
    """Wait until that many slots are in a state."""

    def look() -> list[dict[str, object]] | None:
        found = slots_of(mirror)
        return found if [slot["state"] for slot in found] == [state] * count else None

    return wait_until(look, deadline_s=FLOWING_S, what=f"{count} slots {state}") or []


def wait_values(region: Region, topic: str, partition: int, wanted: Sequence[bytes | None]) -> None:
    """Wait until a read_committed consumer is handed exactly these values."""
    wait_until(
        lambda: values(region, topic, partition) == list(wanted),
        deadline_s=FLOWING_S,
        what=f"{len(wanted)} records in {topic}-{partition}",
    )
