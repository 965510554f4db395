"""The grants of a fleet's services, as lines to paste. Connects to nothing."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from mirrorfleet.config.flows import all_flows, flow_of, targets_of
from mirrorfleet.config.telemetry import traces_endpoint
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.policy.acls import Grant, Service, grants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mirrorfleet.config.model import Estate
    from mirrorfleet.config.rights import Grantee


def wanted_grants(estate: Estate, target: str, names: Iterable[str]) -> list[Grant]:
    """All that the named services need; no secret is looked up.

    Raises: ConfigError for an unknown target or service, or an address of traces that is none.
    """
    targets_of(estate, target)
    services = [_service(name) for name in names]
    flows = [flow_of(estate, entry) for entry in estate.links_into(target)]
    others = {alias: estate.fleet_of(alias) for alias in estate.targets()}
    fleet, every = estate.fleet_of(target), all_flows(estate)
    return grants(
        fleet,
        flows,
        services,
        other_fleets=others,
        traced=others if traces_endpoint(estate) is not None else {},
        estate=every,
        beaten=_beaten(estate, target),
    )


def grant_lines(grantee: Grantee, found: Sequence[Grant]) -> list[str]:
    """Ready to paste, cluster by cluster. Raises: ConfigError without a principal."""
    sources = [entry.source for entry in grantee.estate.links_into(grantee.target)]
    clusters = dict.fromkeys((ClusterAlias(grantee.target), *sources))
    return [
        line
        for cluster in clusters
        for line in grantee.lines(cluster, [g for g in found if g.cluster == cluster])
    ]


def _beaten(estate: Estate, target: str) -> Sequence[ClusterAlias]:
    """The sources that the fleet's `heartbeat` writes to, in place of its target."""
    if estate.services.get(Service.HEARTBEAT, {}).get("place") != "source":
        return ()
    return [entry.source for entry in estate.links_into(target)]


def _service(name: str) -> Service:
    try:
        return Service(name)
    except ValueError:
        near = difflib.get_close_matches(name, [one.value for one in Service], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(Service)}."
        raise ConfigError(f"{name!r} is no service.", hint=hint) from None
