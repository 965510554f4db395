"""The containers are what the local pair is: same broker settings, same programs, checked files."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import cast

import jsonschema
import pytest
import yaml

from mirrorfleet.config.load import load_estate
from services.local import properties
from services.local.region import Region, RegionSpec, Written
from tests.architecture.source import ROOT

Service = dict[str, object]
ADDRESSES = {
    "KAFKA_CONTROLLER_QUORUM_VOTERS",
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",  # one more: HOST, for clients on the laptop
    "KAFKA_LOG_DIRS",
}
JAVA = {"CLUSTER_ID", "KAFKA_HEAP_OPTS"}
"""What the image takes and the broker does not see."""

REGIONS = ("east", "west")
PROGRAMS = ("checkpoint", "heartbeat", "lag", "mirror", "sync")
ALONE = ("console",)
FLEET = tuple(f"{program}-{region}" for program in PROGRAMS for region in REGIONS)
JOBS = ("spark-east", "spark-west")
PAGES = ("grafana", "jaeger", "otel-collector", "prometheus")
ESTATE = ROOT / "deploy/config/compose/estate.yaml"
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text("utf-8")


def compose() -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def containers() -> dict[str, Service]:
    return cast("dict[str, Service]", compose()["services"])


def list_of(service: Service, key: str) -> list[str]:
    return cast("list[str]", service.get(key, []))


def environment(service: Service) -> dict[str, str]:
    """What the container sees: its files first, its own keys over them."""
    seen: dict[str, str] = {}
    for file in cast("list[str]", service.get("env_file", [])):
        lines = (ROOT / file).read_text("utf-8").splitlines()
        seen |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return seen | cast("dict[str, str]", service.get("environment", {}))


def local_broker() -> dict[str, str]:
    written = Written(spec=RegionSpec(name="east"), ports=((1, 2, 3),), java="java", jars="jars")
    return properties.environment(Region(Path("east"), written).properties(1))


def test_the_compose_file_follows_the_specification() -> None:
    schema = json.loads((ROOT / "tests/architecture/compose.schema.json").read_text("utf-8"))

    jsonschema.validate(compose(), schema)


def test_a_misspelt_key_is_no_compose_file() -> None:
    schema = json.loads((ROOT / "tests/architecture/compose.schema.json").read_text("utf-8"))
    wrong = compose()
    cast("dict[str, Service]", wrong["services"])["east"]["enviroment"] = {}

    with pytest.raises(jsonschema.ValidationError, match="enviroment"):
        jsonschema.validate(wrong, schema)


def test_there_are_two_regions_and_both_fleets_and_the_pages() -> None:
    profiles = {name: service["profiles"] for name, service in containers().items()}

    assert profiles == {
        **{name: ["core"] for name in (*REGIONS, *FLEET, *ALONE, *JOBS)},
        **{name: ["observability"] for name in PAGES},
    }


def test_core_is_what_starts_when_nothing_is_said() -> None:
    assert "COMPOSE_PROFILES=core" in (ROOT / ".env").read_text("utf-8").splitlines()


def test_every_port_is_published_on_localhost_only() -> None:
    ports = [port for service in containers().values() for port in list_of(service, "ports")]

    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_every_port_is_one_of_its_own_that_no_start_moves() -> None:
    """Of a range Docker gives out the next one each time, and who had the page open finds none."""
    ports = [port for service in containers().values() for port in list_of(service, "ports")]
    given = [re.fullmatch(r"127\.0\.0\.1:(?:\$\{\w+:-)?(\d+)}?:\d+", port) for port in ports]
    fixed = [found[1] for found in given if found]

    assert len(fixed) == len(ports) == len(set(fixed))


def test_no_container_keeps_capabilities_or_gains_rights() -> None:
    for name, service in containers().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


@pytest.mark.parametrize("region", REGIONS)
def test_a_container_broker_has_the_settings_of_a_local_one(region: str) -> None:
    container = environment(containers()[region])
    local = local_broker()

    assert set(container) - JAVA == set(local)
    assert {key: container[key] for key in set(local) - ADDRESSES} == {
        key: local[key] for key in set(local) - ADDRESSES
    }


def test_both_regions_have_a_cluster_id_of_their_own() -> None:
    assert len({environment(containers()[region])["CLUSTER_ID"] for region in REGIONS}) == 2


def test_every_file_that_compose_mounts_or_reads_exists() -> None:
    mounts = [
        mount.split(":")[0]
        for service in containers().values()
        for mount in list_of(service, "volumes")
    ]
    files = [mount for mount in mounts if mount.startswith("./")]
    named = set(mounts) - set(files)

    assert [file for file in files if not (ROOT / file).exists()] == []
    assert named == set(cast("dict[str, None]", compose()["volumes"]))


@pytest.mark.parametrize("region", REGIONS)
def test_the_fleets_reach_a_region_where_it_advertises_itself(region: str) -> None:
    estate = load_estate(ESTATE, {})
    advertised = environment(containers()[region])["KAFKA_ADVERTISED_LISTENERS"]

    (address,) = estate.cluster(region).bootstrap
    assert f"CLIENTS://{address}" in advertised.split(",")


@pytest.mark.parametrize("name", [*FLEET, *ALONE])
def test_a_fleet_container_runs_its_service_for_its_target(name: str) -> None:
    program, _, target = name.partition("-")
    service = containers()[name]
    command = cast("list[str]", service["command"])

    assert command[0] == f"services.{program}"
    assert command[command.index("--target") + 1] == (target or "west")
    assert (ROOT / "services" / program / "__main__.py").is_file()
    assert load_estate(ESTATE, {}).links_into(target or "west")
    assert service["read_only"] is True
    assert "container_name" not in service  # it could not be scaled


def test_what_browsers_of_this_machine_reach_answers_to_no_name_of_a_stranger() -> None:
    """Published on localhost, it would be read by a page whose name was turned to 127.0.0.1."""
    published = [name for name in [*FLEET, *ALONE] if list_of(containers()[name], "ports")]
    assert published == ["console"]

    for name in published:
        command = list_of(containers()[name], "command")
        given = {word for flag, word in pairwise(command) if flag == "--http-name"}
        assert given == {"localhost", name}


@pytest.mark.parametrize("name", [*FLEET, *ALONE])
def test_the_health_check_asks_the_port_that_the_service_listens_on(name: str) -> None:
    command = cast("list[str]", containers()[name]["command"])
    port = command[command.index("--http-port") + 1]

    assert f"MIRRORFLEET_HEALTH_PORT={port}\n" in DOCKERFILE
    assert "HEALTHCHECK" in DOCKERFILE
    assert "healthcheck" not in containers()[name]  # the image's own


def test_the_command_that_the_image_shows_listens_where_its_health_check_asks() -> None:
    (shown,) = re.findall(r"^#   docker run ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    port = re.search(r"MIRRORFLEET_HEALTH_PORT=(\d+)", DOCKERFILE)

    assert port is not None
    assert f"--http-host 0.0.0.0 --http-port {port[1]}" in shown


def test_the_image_runs_as_a_user_without_rights() -> None:
    users = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)

    assert [(int(uid) >= 10001, int(gid) >= 10001) for uid, gid in users] == [(True, True)]


def test_the_image_installs_the_locked_packages_only() -> None:
    installs = re.findall(r"pip install (?:[^\n]|\\\n)*", DOCKERFILE.replace("\\\n", " "))

    assert len(installs) == 1
    assert "--require-hashes --requirement /tmp/base.lock" in installs[0]


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.spark"])
def test_what_an_image_runs_is_readable_to_its_user_whatever_the_umask_of_the_checkout(
    name: str,
) -> None:
    *_, sources, last = (ROOT / "deploy" / name).read_text("utf-8").split("\nFROM ")

    assert "RUN chmod -R a+rX /opt/mirrorfleet\n" in sources
    assert re.findall(r"^COPY (?!--from).*$", last, re.MULTILINE) == []


def test_what_the_image_copies_exists() -> None:
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    copied = [path for line in lines for path in line.split()]

    assert copied == [
        "requirements/base.lock",
        "libs",
        "services",
        "deploy/healthcheck.py",
        "LICENSE",
    ]
    assert [path for path in copied if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", JOBS)
def test_a_jobs_container_runs_them_on_a_schedule_and_keeps_the_reports(name: str) -> None:
    target = name.removeprefix("spark-")
    service = containers()[name]
    command = cast("list[str]", service["command"])

    assert command[0] == "spark.jobs.schedule"
    assert command[command.index("--target") + 1] == target
    output = command[command.index("--output") + 1]
    assert f"{target}-reports:{output}" in list_of(service, "volumes")
    assert service["read_only"] is True


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", 0),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1),
        (b"", 1),
    ],
)
def test_the_health_check_says_what_the_service_says(answer: bytes, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {"MIRRORFLEET_HEALTH_PORT": str(server.getsockname()[1])}
        command = [sys.executable, "-I", "-S", str(ROOT / "deploy/healthcheck.py")]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as check:
            connection, _ = server.accept()
            with connection:
                asked = connection.recv(64)
                assert asked.startswith(b"GET /readyz ")
                assert b"\r\nHost: localhost\r\n" in asked  # what listens on it answers no other
                connection.sendall(answer)

    assert check.returncode == code


def test_a_service_that_does_not_listen_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, "-I", "-S", str(ROOT / "deploy/healthcheck.py")]
    environment = {"MIRRORFLEET_HEALTH_PORT": str(port)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f"port {port}: " in done.stderr


def test_the_example_estate_is_valid() -> None:
    estate = load_estate(ROOT / "deploy/config/estate.example.yaml", {})

    assert estate.targets() == ("west", "east", "lab")
