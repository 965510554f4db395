"""`python -m tests.compose`, also as `deploy/verify-compose`: from an engine to a judged pair.

Images, all of profile core healthy, traffic both ways while a worker is killed, every record
judged, pages fetched, standbys started, everything taken down. Exit 0 when every check held.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from services.local.ports import free_ports
from tests.compose import checks
from tests.compose.engine import BUILD_S, ROOT, EngineError, Project, docker, pulls, run
from tests.demo.checks import Check, check_side, check_topics, topic_names
from tests.demo.plan import SIDES
from tests.faultkit.hold import hold_sync
from tests.faultkit.leaving import leave_in_order
from tests.faultkit.traffic import TrafficError, traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.load.tally import Tally

NAME = "mirrorfleet-verify"
BASE_IMAGES = ("python:3.11-slim", "apache/kafka:4.3.0")
VICTIM = "mirror-west"
RATE = 500.0
"""Records a second in each region; a laptop with everything on it judges them in seconds."""

HUGE = 3000
PROFILES = ("--profile", "core", "--profile", "observability")
DOWN_S = 180.0
TAIL = 12
"""Lines of the log of a container that is not well."""


def main(arguments: list[str] | None = None) -> int:
    """Do all of it; whatever happens, nothing is left running."""
    asked = _parser().parse_args(arguments)
    leave_in_order()
    with tempfile.TemporaryDirectory(prefix="mirrorfleet-") as scratch:
        project = Project(NAME, environment(Path(scratch)))
        try:
            found = verify(project, asked)
        except (EngineError, TrafficError, AssertionError) as error:
            say(f"\nfailed: {error}")
            tell_logs(project)
            return 1
        finally:
            if not asked.keep:
                down(project)
    say("\n" + "\n".join(map(str, found)))
    return 0 if all(check.ok for check in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deploy/verify-compose", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=180.0, help="length of the traffic")
    add("--stand-ins", action="store_true", help="make the base images, ask no registry")
    end = f"docker compose -p {NAME} {' '.join(PROFILES)} down --volumes"
    add("--keep", action="store_true", help=f"leave it running; `{end}` ends it")
    return parser


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def environment(scratch: Path) -> dict[str, str]:
    """What Compose is told: free ports, and how this machine reaches packages.

    What pip is told by variables goes into a file that the build gets as a secret.
    """
    ports = free_ports(4)
    conf = scratch / "pip.conf"
    told = {name: os.environ[name] for name in sorted(os.environ) if name.startswith("PIP_")}
    keys = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_TIMEOUT")
    lines = [
        f"{name.removeprefix('PIP_').lower().replace('_', '-')} = {value}"
        for name, value in told.items()
        if name in keys
    ]
    conf.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    given = {
        "COMPOSE_PROFILES": "core",
        "EAST_PORT": str(ports[0]),
        "WEST_PORT": str(ports[1]),
        "CONSOLE_PORTS": f"{ports[2]}-{ports[2] + 1}",
        "PROMETHEUS_PORT": str(ports[3]),
        "MIRRORFLEET_PIP_CONF": str(conf),
    }
    authorities = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if authorities:
        given["MIRRORFLEET_BUILD_CA"] = authorities
    return {**given, **{name: os.environ[name] for name in given if name in os.environ}}


def verify(project: Project, asked: argparse.Namespace) -> list[Check]:
    """All steps in order. Raises: EngineError, AssertionError."""
    prepare_images(project, stand_ins=asked.stand_ins)
    began = time.monotonic()
    say("profile core …")
    project.compose("up", "--detach", "--no-build", deadline_s=checks.HEALTHY_S)
    checks.wait_well(project)
    containers = project.containers()
    say(f"time to healthy: {time.monotonic() - began:.0f} s, {len(containers)} containers")
    for image, size in checks.image_sizes(project).items():
        say(f"  image {image}: {size / 1e6:.0f} MB")
    bootstraps = {
        "east": f"127.0.0.1:{project.env['EAST_PORT']}",
        "west": f"127.0.0.1:{project.env['WEST_PORT']}",
    }
    found = [checks.check_rights(containers)]
    tallies, killed = make_traffic(project, bootstraps, asked.seconds)
    found.append(killed)
    say("judging every record …")
    for side in SIDES:
        judged, report = check_side(side, tallies[side.name], bootstraps)
        found += [*judged, check_topics(side, topic_names(bootstraps[side.name]))]
        say(f"\n{report}")
    found += [checks.check_pages(project), check_standbys(project)]
    if pulls(prometheus_image(project)):
        found.append(checks.check_prometheus(project))
    return found


def prometheus_image(project: Project) -> str:
    """The image that docker-compose.yml names for it."""
    images = project.compose("--profile", "observability", "config", "--images")
    return next(line for line in images.splitlines() if "prometheus" in line)


def prepare_images(project: Project, *, stand_ins: bool) -> None:
    """Base images from the registry or by hand, then ours."""
    began = time.monotonic()
    if stand_ins or not all(map(pulls, BASE_IMAGES)):
        say("base images: stand-ins …")
        script = str(ROOT / "deploy/stand-ins/build")
        run([script], deadline_s=BUILD_S, env={"PYTHON": sys.executable})
    say("our images …")
    project.compose("build", "--quiet", deadline_s=BUILD_S)
    say(f"images ready after {time.monotonic() - began:.0f} s")


def make_traffic(
    project: Project, bootstraps: Mapping[str, str], seconds: float
) -> tuple[dict[str, Tally], Check]:
    """Write to both regions at once; kill a worker when half of it is made."""
    say(f"traffic both ways for {seconds:g} s, {VICTIM} killed in the middle …")
    with ExitStack() as stack:
        runs = {
            side.name: stack.enter_context(
                traffic(
                    bootstraps[side.name],
                    [f"{t.name}:{t.partitions}{':compact' * t.compacted}" for t in side.topics],
                    rate=RATE,
                    seed=f"{time.time():.0f}-{side.name}",
                    more=["--seconds", f"{seconds:g}", "--huge", str(HUGE)],
                )
            )
            for side in SIDES
        }
        hold_sync(seconds / 2, reason="the worker is killed in the middle of the traffic")
        began = time.monotonic()
        worker = checks.kill_worker(project, VICTIM)
        checks.wait_well(project, checks.BACK_S)
        killed = Check(
            f"{VICTIM} killed",
            ok=True,
            found=f"{worker.name} ready again {time.monotonic() - began:.1f} s after kill -9",
        )
        say(str(killed))
        return {name: each.wait_end(seconds) for name, each in runs.items()}, killed


def check_standbys(project: Project) -> Check:
    """Every service but mirror takes a second instance."""
    names = sorted(
        each.service
        for each in project.containers()
        if each.service == "console"
        or (each.service.endswith("-west") and not each.service.startswith(("mirror-", "spark-")))
    )
    scales = [part for name in names for part in ("--scale", f"{name}=2")]
    command = ["up", "--detach", "--no-build", "--no-recreate", *scales]
    project.compose(*command, deadline_s=checks.HEALTHY_S)
    checks.wait_well(project)
    twice = [name for name in names if sum(c.service == name for c in project.containers()) == 2]
    return Check("standbys", twice == names, f"two healthy instances of {', '.join(twice)}")


def tell_logs(project: Project) -> None:
    """Show the ends of the logs of containers that are not well."""
    try:
        ill = [each for each in project.containers() if not each.is_well]
        for each in ill:
            say(f"\n--- {each.name}: {each.state} {each.health}")
            say(project.compose("logs", "--no-color", "--tail", str(TAIL), each.service))
    except EngineError as error:
        say(str(error))


def down(project: Project) -> None:
    """Remove containers, networks and data; images stay."""
    try:
        project.compose(*PROFILES, "down", "--volumes", "--remove-orphans", deadline_s=DOWN_S)
        label = f"label=com.docker.compose.project={NAME}"
        left = docker("ps", "--all", "--quiet", "--filter", label).split()
        say("taken down" if not left else f"still there: {left}")
    except EngineError as error:
        say(f"could not be taken down: {error}")


if __name__ == "__main__":
    sys.exit(main())
