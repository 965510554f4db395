"""What must hold of the containers: rights, pages, a killed worker that comes back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from tests.compose.engine import EngineError, docker
from tests.demo.checks import Check
from tests.faultkit.process import HTTP_S
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.compose.engine import Container, Project

REGIONS = ("east", "west")
SERVICE_PAGES = ("/healthz", "/readyz", "/metrics", "/status")
CONSOLE_PAGES = ("/healthz", "/readyz", "/metrics", "/status", "/")
HEALTHY_S = 600.0
BACK_S = 180.0

FETCH = """
import sys, urllib.request as r
for path in sys.argv[1:]:
    with r.urlopen("http://127.0.0.1:8080" + path, timeout=10) as answer:
        print(path, answer.status, len(answer.read()))
"""
"""Run inside a container: a service without a published port is asked there."""

KILL_ALL = "kill -9 -1"
"""Everything but process 1, which is Docker's init: it ends with its only child, as in a crash.
`docker kill` would count as wanted, and the container would stay down."""


def wait_well(project: Project, deadline_s: float = HEALTHY_S) -> None:
    """Wait until every container runs and is healthy."""

    def look() -> bool:
        ill = [each for each in project.containers() if not each.is_well]
        seen[:] = [f"{each.service}: {each.state} {each.health}" for each in ill]
        return not ill

    seen: list[str] = []
    try:
        wait_until(look, deadline_s=deadline_s, what="all containers to be healthy")
    except AssertionError:
        raise EngineError(f"not healthy after {deadline_s:g} s: {'; '.join(seen)}") from None


def is_ours(container: Container) -> bool:
    """Whether it is a service of the fleet, neither a broker nor a page of others."""
    return container.service not in REGIONS


def check_rights(containers: Iterable[Container]) -> Check:
    """Ours have no root, no capability, and a file system that cannot be written."""
    wrong: list[str] = []
    looked = [each for each in containers if is_ours(each)]
    for each in looked:
        (found,) = json.loads(docker("inspect", each.name))
        host, user = found["HostConfig"], found["Config"]["User"]
        if not host["ReadonlyRootfs"] or host["CapDrop"] != ["ALL"] or user in ("", "0", "root"):
            wrong.append(each.service)
    return Check(
        "containers without rights",
        bool(looked) and not wrong,
        f"{len(looked)} run without root, capabilities or a writable root"
        if not wrong
        else f"too much is allowed to {', '.join(wrong)}",
    )


def check_pages(project: Project) -> Check:
    """Every service answers on every page."""
    failed: list[str] = []
    answered = 0
    for each in filter(is_scraped, project.containers()):
        pages = CONSOLE_PAGES if each.service == "console" else SERVICE_PAGES
        try:
            answered += len(
                project.inside(each.name, "python", "-c", FETCH, *pages).strip().splitlines()
            )
        except EngineError as error:
            failed.append(f"{each.service}: {str(error).splitlines()[-1]}")
    found = f"{answered} answered 200" if not failed else "; ".join(failed)
    return Check("pages", not failed and answered > 0, found)


def kill_worker(project: Project, service: str) -> Container:
    """Kill what runs in the container of a service, as a crash would; gives the container."""
    worker = project.container(service)
    before = restarts(worker)
    with suppress(EngineError):  # the shell may die with the container
        project.inside(worker.name, "sh", "-c", KILL_ALL)
    wait_until(
        lambda: restarts(worker) > before,
        deadline_s=BACK_S,
        what=f"Docker to start {service} again",
        ignoring=(EngineError,),
    )
    return worker


def restarts(container: Container) -> int:
    """How often Docker started it again by itself."""
    return int(docker("inspect", "--format", "{{.RestartCount}}", container.name))


def check_prometheus(project: Project) -> Check:
    """Prometheus finds every instance by name, standbys too, and none is red."""
    project.compose("up", "--detach", "--no-build", "--no-deps", "prometheus", deadline_s=HEALTHY_S)
    expected = sum(is_scraped(each) for each in project.containers())
    url = f"http://127.0.0.1:{project.env['PROMETHEUS_PORT']}/api/v1/targets"

    def look() -> list[str]:
        targets = httpx.get(url, timeout=HTTP_S).json()["data"]["activeTargets"]
        health[:] = [each["health"] for each in targets if each["scrapePool"] == "mirrorfleet"]
        return health if health == ["up"] * expected else []

    health: list[str] = []
    try:
        wait_until(
            look, deadline_s=BACK_S, what="targets", ignoring=(httpx.TransportError, ValueError)
        )
    except AssertionError:
        return Check("Prometheus", ok=False, found=f"{health} instead of {expected} that are up")
    return Check("Prometheus", ok=True, found=f"scrapes {expected} instances, all up")


def is_scraped(container: Container) -> bool:
    """Whether it has metrics: the services."""
    return is_ours(container) and not container.service.startswith(("spark", "prometheus"))


def image_sizes(project: Project) -> dict[str, int]:
    """Bytes of every image that the project's containers run, layers that they share included."""
    names = {each.name for each in project.containers()}
    images = {docker("inspect", "--format", "{{.Config.Image}}", name).strip() for name in names}
    return {
        image: int(docker("image", "inspect", "--format", "{{.Size}}", image))
        for image in sorted(images)
    }
