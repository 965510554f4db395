"""Where a topic is, as far as the estate alone says it."""

from __future__ import annotations

from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.records.topics import control_kind, without_partition


def cluster_of_topic(estate: Estate, topic: str, said: str | None) -> str:
    """The cluster that was `said`, that of a control topic's fleet, or the only one there is.

    `topic` is TOPIC or TOPIC-PARTITION. Raises: ConfigError when it could be on several.
    """
    if said is not None:
        estate.cluster(said)
        return said
    kind = control_kind(without_partition(topic)) or control_kind(topic)
    known = list(estate.clusters)
    if kind is not None:
        known = [alias for alias in known if estate.fleet_of(alias) == kind[0]]
    if len(known) == 1:
        return known[0]
    aliases = ", ".join(estate.clusters)
    raise ConfigError(
        f"{topic}: on which cluster?", path="--cluster", hint=f"Add --cluster: {aliases}."
    )
