"""`python -m tests.demo up|down`: what `make demo` and `make demo-down` run.

`up` finds what already runs and starts the rest; brokers and fleets stay up after success. When
anything fails it shows the reason with the ends of the logs, takes everything down and exits 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx

from mirrorfleet.config.load import load_estate
from services.local.ports import is_free
from tests.demo import detached, tour
from tests.demo.checks import (
    Check,
    check_side,
    check_topics,
    make_traffic,
    mirrorfleet,
    topic_names,
)
from tests.demo.plan import (
    CONSOLE,
    ESTATE,
    HOME,
    LOGS,
    NAME,
    ROOT,
    SIDES,
    ServiceName,
    estate,
    services,
)
from tests.faultkit.collector import Collector, collector
from tests.faultkit.leaving import leave_in_order
from tests.faultkit.process import HTTP_S, url_of
from tests.faultkit.waiting import wait_until

PROCESSES = HOME / "processes.json"
READY_S = 60.0
STATUS_S = 60.0
LOCAL_S = 900.0
"""The first start downloads Kafka."""


class DemoError(Exception):
    """Raised when the demo cannot show what it is to show."""


def main(arguments: list[str] | None = None) -> int:
    """Bring the demo up and check it, or take it down."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo")
    parser.add_argument("action", choices=("up", "down"))
    if parser.parse_args(arguments).action == "down":
        if not down():
            say(f"not all of the demo could be ended: {HOME} is kept, it says what runs")
            return 1
        say("nothing of the demo is left")
        return 0
    leave_in_order()
    if (port := otlp_port()) and not is_free(port):
        say(
            f"port {port}, to which the demo's fleets send their traces, is taken: a demo runs just"
        )
        say("now, or another program has it since. Wait for it, or begin anew: make demo-down demo")
        return 1
    try:
        with collector(port) as otlp:
            up(otlp)
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  # whatever it is, nothing may be left running
        say(f"\nthe demo failed: {type(error).__name__}: {error}")
        for log in sorted(LOGS.glob("*.log")):
            say(f"\n--- {log.name}")
            say("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]))
        down()
        return 1
    return 0


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def otlp_port() -> int:
    """The port that fleets which already run send their traces to; 0 (any) when none do."""
    if not ESTATE.exists():
        return 0
    endpoint = load_estate(ESTATE, {}).telemetry.endpoint or ""
    return int(endpoint.rpartition(":")[2] or 0)


def up(otlp: Collector) -> None:
    """Start what does not run, make traffic, check it, say where to look."""
    began = time.monotonic()
    say("two regions …")
    bootstraps = start_regions()
    ESTATE.write_text(estate(bootstraps, otlp.url), encoding="utf-8")
    LOGS.mkdir(exist_ok=True)
    say(f"  {', '.join(f'{name} at {at}' for name, at in bootstraps.items())}")
    say("two fleets …")
    processes = start_services()
    urls = {str(name): wait_ready(name, processes[str(name)]) for name in services()}
    for name, url in urls.items():
        say(f"  {name} at {url}")
    checks = show(bootstraps, processes, urls, otlp)
    say("\n" + "\n".join(map(str, checks)))
    if not all(check.ok for check in checks):
        raise DemoError("a check failed, see above")
    say(where_to_look(urls, bootstraps))
    say(f"\nthe demo took {time.monotonic() - began:.0f} s")


def show(
    bootstraps: dict[str, str],
    processes: dict[str, detached.Detached],
    urls: dict[str, str],
    otlp: Collector,
) -> list[Check]:
    """Make traffic, and look at what every service made of it."""
    say("traffic both ways …")
    seed = f"{time.time():.0f}"
    tallies = make_traffic(bootstraps, seed=seed)
    groups = [
        tour.leave(bootstraps[side.name], f"billing-{seed}", topic.name, topic.partitions)
        for side in SIDES
        for topic in [next(each for each in side.topics if not each.compacted)]
    ]
    if ended := [name for name, process in processes.items() if not process.runs]:
        raise DemoError(f"under the traffic ended: {', '.join(ended)}")
    say("judging every record …")
    checks: list[Check] = []
    for side in SIDES:
        found, report = check_side(side, tallies[side.name], bootstraps)
        checks += [*found, check_topics(side, topic_names(bootstraps[side.name]))]
        say(f"\n{report}")
    checks.append(check_status())
    for side, group in zip(SIDES, groups, strict=True):
        checks.append(tour.check_group(bootstraps[side.other], side, group))
        checks.append(tour.check_verified(side))
        checks.append(tour.check_lag(side, urls[f"lag-{side.other}"]))
    checks.append(tour.check_trace(otlp))
    checks.append(tour.check_pages(urls[f"{CONSOLE}-west"], [t.name for t in SIDES[0].topics]))
    say("one run of each Spark job …")
    checks += tour.check_reports(SIDES[0])
    return checks


def start_regions() -> dict[str, str]:
    """Bring the region pair up, or find it; give the address of each."""
    command = mirrorfleet("local", "up", "--name", NAME, "--output", "json")
    answer = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LOCAL_S, check=False
    )
    if answer.returncode != 0:
        raise DemoError("the regions did not start, see above")
    rows = json.loads(answer.stdout)
    bootstraps: dict[str, list[str]] = {}
    for row in rows:
        bootstraps.setdefault(row["region"], []).append(row["bootstrap"])
    return {region: ",".join(addresses) for region, addresses in bootstraps.items()}


def start_services() -> dict[str, detached.Detached]:
    """Start the services that do not run; remembered one by one, for `down`."""
    processes = detached.load(PROCESSES)
    for name in services():
        known = processes.get(str(name))
        if known is None or not known.runs:
            command = mirrorfleet(
                "run", name.service, "--target", name.target, "--estate", str(ESTATE)
            )
            log_of(name).unlink(missing_ok=True)
            processes[str(name)] = detached.start(command, log=log_of(name), directory=ROOT)
            detached.save(processes, PROCESSES)
    return processes


def log_of(name: ServiceName) -> Path:
    """Give the log file of a service."""
    return LOGS / f"{name}.log"


def wait_ready(name: ServiceName, process: detached.Detached) -> str:
    """Wait until a service says that it does its job; give its address."""

    def look() -> str:
        if not process.runs:
            raise DemoError(f"{name} has ended")
        lines = log_of(name).read_text(encoding="utf-8", errors="replace").splitlines()
        url = next(filter(None, map(url_of, lines)), "")
        ready = url and httpx.get(f"{url}/readyz", timeout=HTTP_S).is_success
        return url if ready else ""

    return wait_until(
        look, deadline_s=READY_S, what=f"{name} to be ready", ignoring=(httpx.TransportError,)
    )


def check_status() -> Check:
    """Ask the fleets themselves, as an operator would."""
    command = mirrorfleet("status", "--estate", str(ESTATE))
    answer = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STATUS_S,
        check=False,
    )
    said = answer.stdout.strip().splitlines()
    ok = answer.returncode == 0
    found = "every partition has an owner and no fault" if ok else "\n".join(["", *said[-40:]])
    return Check("mirrorfleet status", ok, found)


def where_to_look(urls: dict[str, str], bootstraps: dict[str, str]) -> str:
    """Name the addresses and commands with which to look at what runs."""
    lines = ["\nwhere to look (everything keeps running until `make demo-down`):"]
    for name, url in urls.items():
        lines.append(f"  {name:12} {url}/status  {url}/metrics  {url}/readyz")
    file = ESTATE.relative_to(ROOT)
    programs = Path(sys.executable).parent
    here = programs.relative_to(ROOT) if programs.is_relative_to(ROOT) else programs
    pairs = " ".join(f"{pair.source}={pair.target}" for pair in SIDES[0].pairs)
    lines += [
        f"  {here}/mirrorfleet status --estate {file}",
        f"  {here}/mirrorfleet inspect east.orders --cluster west --estate {file}",
        f"  {here}/python -m tests.judge --source {bootstraps['east']} \\",
        f"      --target {bootstraps['west']} --pairs {pairs}",
        f"  logs: {LOGS.relative_to(ROOT)}/",
    ]
    return "\n".join(lines)


def down() -> bool:
    """End services and brokers and remove what they wrote; fine when there is nothing.

    False where brokers may be left: then what says where they are is kept.
    """
    for process in reversed(detached.load(PROCESSES).values()):
        process.stop()
    ended = subprocess.run(
        mirrorfleet("local", "down", "--name", NAME),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        timeout=LOCAL_S,
        check=False,
    )
    if ended.returncode:
        return False
    shutil.rmtree(HOME, ignore_errors=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
