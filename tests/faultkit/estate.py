"""Estate files for tests: one link from one region to another, with a fleet name of its own.

Tests share regions; a fleet of their own keeps their control topics apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FEW_SLOTS = 4
"""Enough to have several, few enough to be quick: each control topic has as many partitions."""


def write_estate(  # noqa: PLR0913 - estates have that many parts, all by name
    directory: Path,
    *,
    source: str,
    target: str,
    fleet: str,
    topics: Sequence[str],
    rule: Mapping[str, object] | None = None,
    link: Mapping[str, object] | None = None,
    slots: int = FEW_SLOTS,
    services: Mapping[str, Mapping[str, object]] | None = None,
    security: Mapping[str, Mapping[str, object]] | None = None,
    clusters: Mapping[str, Mapping[str, object]] | None = None,
) -> Path:
    """Write `estate.yaml` for a link east -> west between two bootstrap addresses.

    `security` is that section of each cluster, by alias; `clusters` are further keys of them.
    """
    more = {
        alias: {
            "security": dict((security or {}).get(alias, {})),
            **(clusters or {}).get(alias, {}),
        }
        for alias in ("east", "west")
    }
    estate = {
        "estate": fleet,
        "clusters": {
            "east": {"bootstrap": source, **more.get("east", {})},
            "west": {"bootstrap": target, "fleet": fleet, **more.get("west", {})},
        },
        "links": [
            {
                "from": "east",
                "to": "west",
                "slots": slots,
                "rules": [{"name": "all", "topics": list(topics), **(rule or {})}],
                **(link or {}),
            }
        ],
        "services": {name: dict(tuning) for name, tuning in (services or {}).items()},
    }
    return _written(directory, estate)


def _written(directory: Path, estate: Mapping[str, object]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "estate.yaml"
    path.write_text(yaml.safe_dump(estate))
    return path
