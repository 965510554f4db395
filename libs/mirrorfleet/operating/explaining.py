"""`explain`: every cluster of an estate is asked what a topic is to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirrorfleet.config.flows import all_flows, targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.mapping.asking import parse_partition
from mirrorfleet.mapping.standing import standing
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import (
    EXIT_ERROR,
    EXIT_OK,
    EXIT_UNHEALTHY,
    Output,
    say_note,
    show,
)
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.views.explaining import COLUMNS, Known, Role, What, explained


def run(estate_file: Path, text: str, output: Output) -> int:
    """Prints what each link has to do with TOPIC or TOPIC-PARTITION.

    Exit 2 where something needs a person, 1 where a cluster did not answer or none has the topic.
    """
    estate = load_estate(estate_file)
    at = parse_partition(text)
    found = asyncio.run(_ask(estate, sorted({text, at.topic})))
    topic, partition = (at.topic, at.partition) if at.topic != text else (text, None)
    if text in found.names:  # a topic may end like a partition
        topic, partition = text, None
    roles = explained(topic, partition, all_flows(estate), found.known(topic))
    holders = sorted(alias for alias, names in found.topics.items() if topic in names)
    if not (roles or holders):
        raise RefusedError(f"no cluster that answers has a topic {topic!r}.", hint=found.hint)
    nothing = f"{', '.join(holders)} has it, and no link copies from there"
    show(output, COLUMNS, [one.row() for one in roles], nothing, if_any=("rule",))
    for one in roles:
        if one.problem:
            say_note(f"unhealthy: {one.problem}")
    return _code(roles)


def _code(roles: Sequence[Role]) -> int:
    if any(one.what is What.UNKNOWN for one in roles):
        return EXIT_ERROR
    is_well = not any(one.problem or one.what is What.TO_COME for one in roles)
    return EXIT_OK if is_well else EXIT_UNHEALTHY


@dataclass(slots=True)
class _Found:
    """What clusters answered, by alias."""

    topics: dict[str, set[str]] = field(default_factory=dict)
    standing: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Topics that are there, or that a fleet knows."""
        rows = [row for each in self.standing.values() for row in each]
        known = {str(row[side]) for row in rows for side in ("topic", "target_topic")}
        return known.union(*self.topics.values())

    @property
    def hint(self) -> str:
        """Who was not heard."""
        return "; ".join(f"{alias}: {why}" for alias, why in self.silent.items())

    def known(self, topic: str) -> Known:
        """As to one topic."""
        has_topic = {alias: topic in names for alias, names in self.topics.items()}
        return Known(self.standing, has_topic, self.silent)


async def _ask(estate: Estate, names: Sequence[str]) -> _Found:
    found = _Found()
    targets = targets_of(estate, None)
    for alias in estate.clusters:
        try:
            async with open_cluster(estate, alias) as cluster:
                told = (await cluster.metadata(names)).topics
                found.topics[alias] = {
                    name for name in names if name in told and told[name].error is ErrorCode.NONE
                }
                if alias in targets:
                    fleet = estate.fleet_of(alias)
                    found.standing[alias] = await standing(cluster, fleet, SystemClock())
        except MirrorfleetError as error:
            found.silent[alias] = str(error)
    return found
