"""`acls`: the grants of a fleet as lines for `kafka-acls.sh`, or as JSON. Connects to nothing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorfleet.config.flows import all_flows, flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.policy.acls import Grant, Service, grants, kafka_acls_lines
from services.cli.output import EXIT_OK, Output, print_json, say
from services.cli.run import service_names

_ANONYMOUS: Final = "User:ANONYMOUS"


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
    found = grants(fleet, flows, services, other_fleets=others, traced=traced, estate=every)
    if output is Output.JSON:
        print_json([_as_json(estate, asked, grant) for grant in found])
        return EXIT_OK
    for cluster in dict.fromkeys(
        (ClusterAlias(asked.target), *(flow.link.source for flow in flows))
    ):
        for line in _lines(estate, asked, cluster, [g for g in found if g.cluster == cluster]):
            say(line)
    return EXIT_OK


def _lines(
    estate: Estate, asked: Asked, cluster: ClusterAlias, found: Sequence[Grant]
) -> list[str]:
    side = "target" if cluster == asked.target else "source"
    services = ", ".join(sorted({grant.service for grant in found}))
    if not found:
        return [f"# {cluster} ({side}): nothing is needed"]
    return [
        f"# {cluster} ({side}), for {services}",
        *kafka_acls_lines(
            found,
            principal=_principal(estate, asked, cluster),
            host=asked.host,
            bootstrap=",".join(estate.cluster(cluster).bootstrap),
        ),
    ]


def _as_json(estate: Estate, asked: Asked, grant: Grant) -> dict[str, str]:
    return {
        "cluster": grant.cluster,
        "service": grant.service,
        "principal": _principal(estate, asked, grant.cluster),
        "host": asked.host,
        "resource_type": grant.resource.replace("-", "_").upper(),
        "pattern_type": grant.pattern.upper(),
        "name": grant.name,
        "operation": grant.operation,
        "permission": "ALLOW",
    }


def _principal(estate: Estate, asked: Asked, cluster: ClusterAlias) -> str:
    """Who the services are for the broker, as far as the estate says it."""
    if asked.principal is not None:
        if not asked.principal.startswith("User:") or asked.principal == "User:":
            raise ConfigError(
                f"--principal {asked.principal!r} is not of the form User:NAME.",
                hint="For mTLS it is User: and the certificate's distinguished name.",
            )
        return asked.principal
    security = estate.cluster(cluster).security
    if security.username is not None:
        return f"User:{security.username}"
    if not security.protocol.sasl and security.cert_file is None:
        return _ANONYMOUS
    raise ConfigError(
        f"the estate does not say which principal we are on {cluster!r}.",
        path=f"clusters.{cluster}.security",
        hint="Say it: mirrorfleet acls --principal User:NAME ...",
    )


def _service(name: str) -> Service:
    try:
        return Service(name)
    except ValueError:
        near = difflib.get_close_matches(name, [one.value for one in Service], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(Service)}."
        raise ConfigError(f"{name!r} is no service.", hint=hint) from None


def _runnable() -> list[str]:
    return [name for name in service_names() if name in set(Service)]
