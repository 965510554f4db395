"""Reading is free, everything else needs the right token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mirrorfleet.core.ids import ClusterAlias
from services.console.access import refusal
from services.console.service import build
from tests.unit.config.making import RIGHT, parse
from tests.unit.standby.test_demotion import Fleet

TOKEN = "sixteen or more letters"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("token", [None, TOKEN])
def test_reading_needs_no_token(method: str, token: str | None) -> None:
    assert refusal(method, None, token) is None
    assert refusal(method, "Bearer wrong", token) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_without_a_token_of_its_own_a_console_is_read_only(method: str) -> None:
    found = refusal(method, f"Bearer {TOKEN}", None)

    assert found is not None
    assert (found.status, found.error) == (403, "this console is read-only: it has no token.")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 401),
        ("", 403),
        (TOKEN, 403),
        ("Bearer", 403),
        ("Bearer ", 403),
        (f"Basic {TOKEN}", 403),
        (f"Bearer {TOKEN}x", 403),
        ("Bearer \u00e4", 403),
    ],
)
def test_no_token_and_a_wrong_token_are_refused(sent: str | None, status: int) -> None:
    found = refusal("POST", sent, TOKEN)

    assert found is not None
    assert found.status == status


def test_the_right_token_goes_on() -> None:
    assert refusal("POST", f"Bearer {TOKEN}", TOKEN) is None
    assert refusal("DELETE", f"bearer  {TOKEN}", TOKEN) is None


async def test_a_token_that_was_changed_is_the_right_one_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sixteen letters!")
    text = RIGHT.replace("{env: WEST_PASSWORD}", "{file: token}")
    estate = parse(f"{text}services: {{console: {{token: {{file: token}}}}}}\n", directory=tmp_path)
    context = replace(Fleet().context, estate=estate, settings=estate.services["console"])
    transport = httpx.ASGITransport(build(context).app())
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:

        async def sent(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return (await client.post("/api/access", headers=headers)).status_code

        assert [await sent("sixteen letters!"), await sent("the second token")] == [204, 403]
        (tmp_path / "token").write_text("the second token")
        assert [await sent("sixteen letters!"), await sent("the second token")] == [403, 204]


def test_a_broker_that_cannot_be_connected_to_holds_no_page_up_for_longer_than_a_slow_one() -> None:
    """Connections have the deadline of requests: what others answered waits for both."""
    service = build(Fleet().context)

    clusters = [each.cluster for each in service._clusters.values() if each.cluster is not None]
    assert clusters
    for one in clusters:
        assert one.settings.connect_timeout_s == one.settings.request_timeout_s == 5.0


def test_what_a_fleet_of_the_same_name_elsewhere_says_holds_and_releases_nothing() -> None:
    same = RIGHT.replace(
        'bootstrap: "127.0.0.1:19092"', 'bootstrap: "127.0.0.1:19092"\n    fleet: west'
    )
    back = '  - {from: west, to: east, rules: [{name: all, topics: ["bills.*"]}]}\n'
    estate = parse(f"{same}{back}", env={"WEST_PASSWORD": "x"})
    context = replace(Fleet().context, estate=estate)
    service = build(context)
    ours, theirs = (service._health_of(ClusterAlias(alias)) for alias in ("west", "east"))

    ours("not read yet")
    theirs("")
    assert context.health.held() == {"fleet west": "not read yet"}
    ours("")
    theirs("away")
    assert context.health.held() == {}
