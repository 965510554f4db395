"""`acls`: the grants of a fleet as lines for `kafka-acls.sh`, or as JSON. Connects to nothing."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from mirrorfleet.config.flows import all_flows, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.rights import Grantee
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.policy.acls import Service, grants
from services.cli.output import EXIT_OK, Output, print_json, say
from services.cli.run import service_names


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's arguments. No services: those that this release can run."""

    target: str
    services: tuple[str, ...]
    principal: str | None
    host: str


def run(estate_file: Path, asked: Asked, output: Output) -> int:
    """Prints the grants of every cluster of the fleet."""
    estate = load_estate(estate_file)
    links = estate.links_into(asked.target)
    if not links:
        known = ", ".join(estate.targets()) or "none"
        raise ConfigError(f"no link copies into {asked.target!r}.", hint=f"Targets: {known}.")
    services = [_service(name) for name in asked.services or _runnable()]
    flows = [flow_of(estate, entry) for entry in links]
    others = {alias: estate.fleet_of(alias) for alias in estate.targets()}
    fleet, every = estate.fleet_of(asked.target), all_flows(estate)
    traced = others if estate.telemetry.endpoint is not None else {}
    grantee = Grantee(estate, asked.target, asked.principal, asked.host)
    found = grants(fleet, flows, services, other_fleets=others, traced=traced, estate=every)
    if output is Output.JSON:
        print_json([grantee.as_json(grant) for grant in found])
        return EXIT_OK
    for cluster in dict.fromkeys(
        (ClusterAlias(asked.target), *(flow.link.source for flow in flows))
    ):
        for line in grantee.lines(cluster, [g for g in found if g.cluster == cluster]):
            say(line)
    return EXIT_OK


def _service(name: str) -> Service:
    try:
        return Service(name)
    except ValueError:
        near = difflib.get_close_matches(name, [one.value for one in Service], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(Service)}."
        raise ConfigError(f"{name!r} is no service.", hint=hint) from None


def _runnable() -> list[str]:
    return [name for name in service_names() if name in set(Service)]
