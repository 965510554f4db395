"""Estates over the guarded pair, and the rights that `mirrorfleet acls` prints for `sync`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mirrorfleet.config.flows import flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from mirrorfleet.policy.acls import Service, grants
from tests.faultkit.estate import write_estate
from tests.faultkit.regions import address
from tests.integration.following.conftest import Guarded
from tests.integration.security.kit import section
from tests.integration.sync.fleet import Hand, fresh


def estate_of(
    guarded: Guarded,
    directory: Path,
    topics: str,
    *,
    rule: Mapping[str, object] | None = None,
    link: Mapping[str, object] | None = None,
    sync: Mapping[str, object] | None = None,
) -> Path:
    """The estate file of one link with one rule, for a fleet of its own."""
    return write_estate(
        directory,
        source=address(guarded.east),
        target=address(guarded.west),
        fleet=fresh("fleet"),
        topics=[topics],
        rule=rule,
        link=link,
        services={"sync": sync or {}},
        security={
            "east": section(guarded.east, "sync"),
            "west": section(guarded.west, "sync"),
        },
    )


async def grant_sync(file: Path, on_source: Hand, on_target: Hand) -> list[AclBinding]:
    """Give `sync` what it needs for an estate; the ACLs of the target."""
    estate = load_estate(file)
    flows = [flow_of(estate, entry) for entry in estate.links_into("west")]
    wanted = grants(estate.fleet_of("west"), flows, [Service.SYNC])
    hands = {"east": on_source, "west": on_target}
    given: list[AclBinding] = []
    for alias, hand in hands.items():
        given = [
            AclBinding(
                AclResource[each.resource.name],
                each.name,
                AclPattern[each.pattern.name],
                "User:sync",
                "*",
                AclOperation[each.operation.name],
                AclPermission.ALLOW,
            )
            for each in wanted
            if each.cluster == alias
        ]
        await hand.give(*given)
    return given


def an_acl(text: str) -> AclBinding:
    """From "ALLOW User:a READ TOPIC LITERAL orders"."""
    permission, principal, operation, resource, pattern, name = text.split()
    return AclBinding(
        AclResource[resource],
        name,
        AclPattern[pattern],
        principal,
        "*",
        AclOperation[operation],
        AclPermission[permission],
    )
