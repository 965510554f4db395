"""ACLs of the fleet itself are not the source's to say, however it logs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.settings import SyncSettings
from mirrorfleet.watching.acls import AclWatch
from tests.fakes.clock import HandClock, NoDice
from tests.unit.policy.test_crossing import an_acl
from tests.unit.syncing.adopting import Clusters, connect, opened

MUTUAL = "{protocol: SSL, cert_file: a.pem, key_file: a.pem, username: CN=mirrorfleet}"
TOKEN = "{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_file: a.pem, username: CN=mirrorfleet}"


def a_fleet(security: str, policy: str, directory: Path) -> FleetSync:
    text = f"""
estate: e
clusters:
  east: {{bootstrap: "h:1", security: {security}}}
  west: {{bootstrap: "h:2", security: {security}}}
links:
  - {{from: east, to: west, acls: {policy}, rules: [{{name: all, topics: [orders], adopt: true}}]}}
"""
    (directory / "a.pem").touch()
    estate = parse_estate(text, "e.yaml", directory=directory)
    return FleetSync(estate, ClusterAlias("west"), SyncSettings(), HandClock(), NoDice())


@pytest.mark.parametrize("policy", ["add", "mirror"])
@pytest.mark.parametrize("security", [MUTUAL, TOKEN], ids=["certificate", "token"])
async def test_a_denial_for_the_fleet_at_the_source_never_stops_it_at_the_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, security: str, policy: str
) -> None:
    ours = {
        an_acl(f"DENY User:CN=mirrorfleet {operation} TOPIC LITERAL *")
        for operation in ("ALTER_CONFIGS", "CREATE", "ALTER", "DESCRIBE_CONFIGS", "DESCRIBE")
    }
    theirs = an_acl("DENY User:CN=other ALTER_CONFIGS TOPIC LITERAL *")

    async def look(*_: object) -> AclsSeen:
        return AclsSeen(source=frozenset({*ours, theirs}))

    connect(monkeypatch, Clusters())
    monkeypatch.setattr(AclWatch, "look_at_source", look)
    monkeypatch.setattr(AclWatch, "look", look)
    fleet = a_fleet(security, policy, tmp_path)
    side = opened(fleet)

    seen = await fleet.plan(side, await fleet.look(side))

    assert [each.binding for each in seen.plan.acls] == [
        an_acl("DENY User:CN=other ALTER_CONFIGS TOPIC PREFIXED east.")
    ]
