"""The manifests of a fleet: what Kubernetes takes, and what the services and their image are."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any, Final, cast

import pytest
import yaml
from kubernetes_validate.utils import ValidationError, validate

from mirrorfleet.runtime.entry import DRAIN_S
from tests.architecture.source import ROOT
from tests.architecture.test_deploy import ALONE, DOCKERFILE, PROGRAMS

Item = dict[str, Any]
"""Whatever the schema allows: JSON."""
FILE: Final = ROOT / "deploy/kubernetes/fleet.yaml"
VERSIONS: Final = ("1.30", "1.37")
SERVICES: Final = sorted([*PROGRAMS, *ALONE])


def items() -> list[Item]:
    return cast("list[Item]", yaml.safe_load(FILE.read_text("utf-8"))["items"])


def deployments() -> dict[str, Item]:
    return {one["metadata"]["name"]: one for one in items() if one["kind"] == "Deployment"}


def pod(name: str) -> Item:
    return cast("Item", deployments()[name]["spec"]["template"]["spec"])


def container(name: str) -> Item:
    (only,) = pod(name)["containers"]
    return cast("Item", only)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_item_is_one_that_kubernetes_takes(version: str) -> None:
    for item in items():
        validate(item, version, strict=True)


@pytest.mark.parametrize(
    "path", [("spec", "replcas"), ("spec", "template", "spec", "terminationGracePeriod")]
)
def test_a_misspelt_key_is_none(path: tuple[str, ...]) -> None:
    wrong = deepcopy(deployments()["mirror"])
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = 1

    with pytest.raises(ValidationError, match=path[-1]):
        validate(wrong, VERSIONS[-1], strict=True)


def test_every_service_is_there_twice_under_its_own_labels() -> None:
    found = deployments()

    assert sorted(found) == SERVICES
    for name, one in found.items():
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == name
        spread = pod(name)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
        given = one["spec"]["template"]["metadata"]["labels"]
        assert labels == one["spec"]["selector"]["matchLabels"] == given == spread
        assert one["spec"]["replicas"] == 2


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_runs_its_service_and_is_asked_where_it_listens(name: str) -> None:
    one = container(name)
    words = cast("list[str]", one["args"])
    options = dict(zip(words[1::2], words[2::2], strict=True))
    port = int(options["--http-port"])

    assert words[0] == f"services.{name}"
    assert options["--target"] == "$(TARGET)"
    assert options["--http-host"] == "0.0.0.0"
    assert one["env"][0]["valueFrom"]["configMapKeyRef"] == {"name": "estate", "key": "target"}
    assert one["ports"] == [{"name": "http", "containerPort": port}]
    assert f"MIRRORFLEET_HEALTH_PORT={port} " in DOCKERFILE.replace("\n", " ")
    asked = {
        probe: one[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")
    }
    assert {probe: get["path"] for probe, get in asked.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {get["port"] for get in asked.values()} == {"http"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_no_rights_and_the_user_of_the_image(name: str) -> None:
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    security = pod(name)["securityContext"]

    assert (security["runAsUser"], security["runAsGroup"]) == tuple(map(int, user))
    assert security["runAsNonRoot"] is True
    assert pod(name)["automountServiceAccountToken"] is False
    assert container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {one["name"] for one in container(name)["volumeMounts"]}
    assert mounted == {one["name"] for one in pod(name)["volumes"]}


@pytest.mark.parametrize("name", SERVICES)
def test_who_is_asked_to_stop_has_the_time_that_a_drain_may_take(name: str) -> None:
    assert pod(name)["terminationGracePeriodSeconds"] > 2 * DRAIN_S


def test_the_console_is_reached_by_its_name() -> None:
    (service,) = [one for one in items() if one["kind"] == "Service"]
    words = container("console")["args"]

    labels = deployments()["console"]["metadata"]["labels"]
    assert (service["metadata"]["name"], service["spec"]["selector"]) == ("console", labels)
    assert words[-4:] == ["--http-name", "localhost", "--http-name", "console"]
