"""Clusters that refuse us, or that we refuse: at the start it is one clear error and exit 1 with
nothing written; a source that does so later is a health reason, while other links flow. A target
where nobody is is waited for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its public names, not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from services.cli.__main__ import main
from services.local.ports import HOST, free_ports
from services.local.region import Region
from services.local.security import GOOD_HOSTS
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.integration.security.conftest import WrongListeners
from tests.integration.security.kit import (
    access_as,
    create_topics,
    produce,
    properties,
    section,
    topics_of,
)
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At, ClusterAccess, ReadingError, ends_of
from tests.judge.render import render
from tests.judge.verdict import Verdict

RECOVERS_S = 15.0
STARTS_S = 60.0
ENDS_S = 10.0


class Way(NamedTuple):
    """An address and a way to authenticate that do not go together, and what is said of it."""

    bootstrap: str
    security: dict[str, object]
    said: str


def other_password(directory: Path) -> dict[str, object]:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "other.password"
    file.write_text("not-the-one")
    return {"password": {"file": str(file)}}


def over_tls(wrong: WrongListeners, bootstrap: str, flaw: str) -> Way:
    security: dict[str, object] = {"protocol": "SSL", "ca_file": str(wrong.authority.ca_file)}
    return Way(bootstrap, security, f"{bootstrap}: the broker's certificate {flaw}")


def ways(sasl: Region, mutual: Region, wrong: WrongListeners, directory: Path) -> dict[str, Way]:
    right = section(sasl, "mirror")
    stranger = wrong.authority.issue("stranger", (), timedelta(days=1))
    certificate = {"cert_file": str(stranger), "key_file": str(stranger.with_suffix(".key"))}
    (free,) = free_ports(1)
    return {
        "nobody there": Way(
            f"{HOST}:{free}", right, f"{HOST}:{free} (west): cannot connect: Connection refused."
        ),
        "password": Way(
            address(sasl),
            {**right, **other_password(directory)},
            f"{address(sasl)} (west): SASL SCRAM-SHA-512 as User:mirror failed: "
            "Authentication failed",
        ),
        "unknown CA": Way(
            address(sasl),
            {**right, "ca_file": str(wrong.authority.ca_file)},
            f"{address(sasl)}: the broker's certificate is signed by a CA we do not know",
        ),
        "expired": over_tls(wrong, wrong.expired, "has expired."),
        "host name": over_tls(wrong, wrong.elsewhere, "is not for 127.0.0.1."),
        "our certificate": Way(
            address(mutual),
            {**section(mutual, "mirror"), **certificate},
            f"{address(mutual)} (west) refused our certificate:",
        ),
    }


@contextmanager
def started_towards(
    way: Way, source: Region, directory: Path
) -> Iterator[tuple[Path, list[ServiceProcess]]]:
    """The estate of a link to that target, and the services that were started with it."""
    estate = write_estate(
        directory,
        source=address(source),
        target=way.bootstrap,
        fleet="refused",
        topics=[".*"],
        security={"east": section(source, "admin"), "west": way.security},
    )
    with ExitStack() as stack:
        yield (
            estate,
            [
                stack.enter_context(service(each, estate=estate, target="west", logs=directory))
                for each in ("sync", "mirror")
            ],
        )


WAYS = ("password", "unknown CA", "expired", "host name", "our certificate")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", WAYS)
def test_services_end_with_1_and_validate_says_the_same_before_anything_is_written(
    sasl: Region,
    mutual: Region,
    wrong: WrongListeners,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    way = ways(sasl, mutual, wrong, tmp_path)[name]
    source = sasl if way.bootstrap == address(mutual) else mutual
    before = [topics_of(access_as(region)) for region in (sasl, mutual)]

    with started_towards(way, source, tmp_path) as (estate, started):
        assert main(["validate", "--live", "--estate", str(estate)]) == 1
        validated = capsys.readouterr().err
        codes = [process.wait_exit(STARTS_S) for process in started]

    assert codes == [1, 1]
    for process in started:
        last = process.text().splitlines()[-1]
        assert last.startswith(f"error: mirrorfleet {process.name.removesuffix('-west')}: ")
        assert way.said in last
        assert "Traceback" not in process.text()
        assert "not-the-one" not in process.text()
    assert way.said in validated
    assert "not-the-one" not in validated
    assert [topics_of(access_as(region)) for region in (sasl, mutual)] == before


@pytest.mark.timeout(120)
def test_services_wait_for_a_target_where_nobody_is_and_validate_ends_with_the_same_words(
    sasl: Region,
    mutual: Region,
    wrong: WrongListeners,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    way = ways(sasl, mutual, wrong, tmp_path)["nobody there"]
    before = [topics_of(access_as(region)) for region in (sasl, mutual)]

    with started_towards(way, mutual, tmp_path) as (estate, started):
        for process in started:
            await_reason(process, way.said)
        assert main(["validate", "--live", "--estate", str(estate)]) == 1
        validated = capsys.readouterr().err
        for process in started:
            process.terminate()
        codes = [process.wait_exit(ENDS_S) for process in started]

    assert codes == [0, 0]
    assert [process.text().count(way.said) for process in started] == [1, 1]
    assert way.said in validated
    assert [topics_of(access_as(region)) for region in (sasl, mutual)] == before


@pytest.mark.timeout(120)
def test_services_without_any_right_at_the_target_end_with_1_and_name_the_first(
    sasl: Region, mutual: Region, tmp_path: Path
) -> None:
    catalog = "__mirrorfleet.rightless.catalog"
    estate = write_estate(
        tmp_path,
        source=address(mutual),
        target=address(sasl),
        fleet="rightless",
        topics=["none"],
        security={"east": section(mutual, "admin"), "west": section(sasl, "mirror")},
    )
    before = topics_of(access_as(sasl))
    with service("sync", estate=estate, target="west", logs=tmp_path) as sync:
        codes = [sync.wait_exit(STARTS_S)]
    after = topics_of(access_as(sasl))
    create_topics(access_as(sasl), {catalog: 1})  # by hand, so that the mirror finds one
    with service("mirror", estate=estate, target="west", logs=tmp_path) as mirror:
        codes.append(mirror.wait_exit(STARTS_S))

    assert codes == [1, 1]
    assert after == before
    firsts = {sync: "Group:mirrorfleet.rightless.sync", mirror: f"Topic:{catalog}"}
    for process, first in firsts.items():
        last = process.text().splitlines()[-1]
        assert f"User:mirror may not READ {first} on west" in last
        assert "`mirrorfleet acls` prints what is needed." in last


class Sources(NamedTuple):
    """Clusters of a fleet with two links: north is open to all, south refuses or is refused."""

    north: Region
    south: Way
    west: Region
    admin: ClusterAccess
    """How to write to south."""


def write_two_links(directory: Path, sources: Sources, south: dict[str, object]) -> Path:
    directory.mkdir()
    fleet = directory.parent.name
    file = directory / "estate.yaml"
    estate = {
        "estate": fleet,
        "clusters": {
            "north": {"bootstrap": address(sources.north)},
            "south": {"bootstrap": sources.south.bootstrap, "security": south},
            "west": {
                "bootstrap": address(sources.west),
                "security": section(sources.west, "admin"),
                "fleet": fleet,
            },
        },
        "links": [
            {
                "from": alias,
                "to": "west",
                "slots": 1,
                "rules": [{"name": "all", "topics": [f"{fleet}-{alias}"]}],
            }
            for alias in ("north", "south")
        ],
    }
    file.write_text(yaml.safe_dump(estate))
    return file


def has_records(access: ClusterAccess, topic: str) -> bool:
    at = At(topic, 0)
    return topic in topics_of(access) and ends_of(access, [at])[at].committed > 0


def await_copied(access: ClusterAccess, topic: str, deadline_s: float) -> None:
    wait_until(
        lambda: has_records(access, topic),
        deadline_s=deadline_s,
        what=f"records in {topic}",
        ignoring=(ReadingError,),
    )


def check_recovery(
    sources: Sources, directory: Path, known: dict[str, object], repair: Callable[[], object]
) -> None:
    """The mirror is refused by south, and sync too unless `known` is another way in."""
    fleet, target = directory.name, access_as(sources.west)
    for alias, source in (("north", access(sources.north)), ("south", sources.admin)):
        create_topics(source, {f"{fleet}-{alias}": 1})
        produce(source, {f"{fleet}-{alias}": 1}, 20)
    estates = {
        "sync": write_two_links(directory / "sync", sources, known),
        "mirror": write_two_links(directory / "mirror", sources, sources.south.security),
    }
    with ExitStack() as stack:
        sync, mirror = (
            stack.enter_context(service(name, estate=file, target="west", logs=directory))
            for name, file in estates.items()
        )
        await_reason(sync if known == sources.south.security else mirror, sources.south.said)
        await_copied(target, f"north.{fleet}-north", STARTS_S)
        assert not has_records(target, f"south.{fleet}-south")

        repair()
        await_copied(target, f"south.{fleet}-south", RECOVERS_S)
        for process in (sync, mirror):
            process.wait_ready(RECOVERS_S)
        pair = Pair(f"{fleet}-south", f"south.{fleet}-south")
        report = judge(Copy(source=sources.admin, target=target, pairs=[pair]))
    assert report.verdict is Verdict.PASS, render(report)


def await_reason(refused: ServiceProcess, said: str) -> None:
    wait_until(
        lambda: said in refused.get("/readyz").text,
        deadline_s=STARTS_S,
        what="the reason in /readyz",
        ignoring=(httpx.TransportError,),
    )
    assert said in json.dumps(refused.status())
    assert said in refused.text()


@pytest.mark.timeout(180)
def test_a_wrong_password_for_a_source_is_a_health_reason_until_its_file_is_corrected(
    sasl: Region, mutual: Region, wrong: WrongListeners, east: Region, tmp_path: Path
) -> None:
    directory = tmp_path / "password"
    south = ways(sasl, mutual, wrong, directory)["password"]
    south = south._replace(
        security={**south.security, "username": "admin"},
        said=south.said.replace("User:mirror", "User:admin").replace("(west)", "(south)"),
    )
    secret = directory / "other.password"
    check_recovery(
        Sources(east, south, mutual, access_as(sasl)),
        directory,
        section(sasl, "admin"),
        lambda: secret.write_text("admin-secret"),
    )


def renew_certificate(region: Region, wrong: WrongListeners) -> None:
    """What an operator does at a broker that runs: the same file, another certificate."""
    certificate = wrong.authority.issue("lapsed", GOOD_HOSTS, timedelta(days=1))
    entry = ConfigEntry(
        "listener.name.lapsed.ssl.keystore.location",
        str(certificate),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient(properties(access_as(region)))
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(20)


@pytest.mark.timeout(180)
def test_an_expired_certificate_of_a_source_is_a_health_reason_until_it_is_renewed(
    sasl: Region, mutual: Region, wrong: WrongListeners, east: Region, tmp_path: Path
) -> None:
    directory = tmp_path / "expired"
    directory.mkdir()
    south = over_tls(wrong, wrong.lapsed, "has expired.")
    check_recovery(
        Sources(east, south, mutual, access_as(sasl)),
        directory,
        south.security,
        lambda: renew_certificate(sasl, wrong),
    )
