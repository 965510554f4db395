"""What the demo consists of: names, topics, the estate file, the services.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.judge.judging import Pair
from tests.load.recipes import Topic

ROOT = Path(__file__).resolve().parents[2]
NAME = "demo"
HOME = ROOT / ".local" / NAME
"""All that the demo writes; the region pair of this name keeps its brokers here too."""

ESTATE = HOME / "estate.yaml"
LOGS = HOME / "logs"

REPORTS = HOME / "reports"
"""Where the Spark jobs write."""

SERVICES = ("sync", "mirror", "heartbeat", "checkpoint", "lag")
"""Of each fleet, in the order of their start."""

CONSOLE = "console"
"""One for the whole estate; it looks at both fleets."""


@dataclass(frozen=True, slots=True)
class Side:
    """A region with the topics that are written there."""

    name: str
    other: str
    topics: tuple[Topic, ...]

    @property
    def pairs(self) -> list[Pair]:
        """Each topic with its copy in the other region."""
        return [Pair(topic.name, f"{self.name}.{topic.name}") for topic in self.topics]


SIDES = (
    Side(
        "east",
        "west",
        (Topic("orders", 6), Topic("clicks", 8), Topic("customers", 2, compacted=True)),
    ),
    Side("west", "east", (Topic("orders", 3), Topic("shipments", 4))),
)
"""`orders` is written in both regions: the prefix keeps the two apart."""


class ServiceName(NamedTuple):
    """One process of the demo."""

    service: str
    target: str

    def __str__(self) -> str:
        return f"{self.service}-{self.target}"


def services() -> list[ServiceName]:
    """All processes, in the order of their start."""
    fleets = [ServiceName(service, side.name) for side in SIDES for service in SERVICES]
    return [*fleets, ServiceName(CONSOLE, "west")]


def estate(bootstraps: dict[str, str], otlp: str) -> str:
    """Write the estate file: all topics and groups, both ways, under prefixed names.

    Traces go to `otlp`, where the demo listens while it runs; copying goes on without it.
    """
    lines = [f"estate: {NAME}", "clusters:"]
    lines += [f'  {alias}: {{bootstrap: "{address}"}}' for alias, address in bootstraps.items()]
    lines.append("links:")
    for side in SIDES:
        lines += [f"  - from: {side.name}", f"    to: {side.other}", "    rules:"]
        lines.append('      - {name: all, topics: [".*"], groups: [".*"], naming: prefix}')
    lines += ["telemetry:", f'  endpoint: "{otlp}"']
    return "\n".join([*lines, ""])


def strangers(names: set[str], side: Side) -> set[str]:
    """Topics of a region that are neither its own, nor copies of the other's, nor internal.

    A copy of a copy would be one: `west.east.orders`.
    """
    other = next(each for each in SIDES if each.name == side.other)
    expected = {topic.name for topic in side.topics} | {pair.target for pair in other.pairs}
    expected.add(f"{side.other}.heartbeats")  # copied on like data, as MM2 does
    return {name for name in names - expected if not is_internal(name)}


def is_internal(name: str) -> bool:
    """Whether a topic holds the state of Kafka, of the fleets, or of MM2's protocol."""
    return name.startswith("__") or name == "heartbeats" or name.endswith(".internal")
