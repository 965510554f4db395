"""Debian's Prometheus as a process of a test: scrapes services, evaluates our rules, is asked."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import httpx
import yaml

from services.local.ports import free_ports
from tests.faultkit.process import HTTP_S, ROOT, RunningProcess
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.faultkit.process import ServiceProcess

START_S = 30.0
RULES = ROOT / "deploy/rules"


class Rule(NamedTuple):
    """A rule as it was evaluated. `state`: of an alert; empty for a recorded number."""

    name: str
    health: str
    error: str
    state: str


class Prometheus:
    """A running one."""

    def __init__(self, process: RunningProcess, url: str) -> None:
        self.process, self.url = process, url

    def query(self, expression: str) -> list[float]:
        """The value of every series that an expression gives now.

        Raises:
            AssertionError: the expression is refused; with the reason.
        """
        self.process.check_alive()
        answer = httpx.get(
            f"{self.url}/api/v1/query", params={"query": expression}, timeout=HTTP_S
        ).json()
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        return [float(series["value"][1]) for series in answer["data"]["result"]]

    def rules(self) -> list[Rule]:
        """Every rule."""
        self.process.check_alive()
        answer = httpx.get(f"{self.url}/api/v1/rules", timeout=HTTP_S).json()
        return [
            Rule(rule["name"], rule["health"], rule.get("lastError", ""), rule.get("state", ""))
            for group in answer["data"]["groups"]
            for rule in group["rules"]
        ]

    def alerts(self) -> dict[str, str]:
        """Alerts that are not silent: pending or firing, by name."""
        return {
            rule.name: rule.state for rule in self.rules() if rule.state not in ("", "inactive")
        }

    def wait_rules(self) -> list[Rule]:
        """Wait until each rule was evaluated once."""
        return (
            wait_until(
                lambda: (
                    (rules := self.rules()) and all(r.health != "unknown" for r in rules) and rules
                ),
                deadline_s=START_S,
                what="all rules to be evaluated",
            )
            or []
        )


def configuration(services: Mapping[str, ServiceProcess]) -> dict[str, object]:
    """Like deploy/prometheus/prometheus.yml, for processes: same job and labels, every second."""
    targets = [
        {
            "targets": [process.wait_url().removeprefix("http://")],
            "labels": {"service": name, "target": "west"},
        }
        for name, process in services.items()
    ]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES / "*.yml")],
        "scrape_configs": [{"job_name": "mirrorfleet", "static_configs": targets}],
    }


@contextmanager
def prometheus(directory: Path, services: Mapping[str, ServiceProcess]) -> Iterator[Prometheus]:
    """Run one that scrapes these services (by name) every second and has the rules of deploy."""
    program = shutil.which("prometheus")
    assert program, "no Prometheus on PATH: `make test-observability` installs Debian's"
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration(services)), encoding="utf-8")
    (port,) = free_ports(1)
    process = RunningProcess(
        "prometheus",
        [
            program,
            f"--config.file={file}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log=directory / "prometheus.log",
    )
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        process.check_alive()
        return httpx.get(f"{url}/-/ready", timeout=HTTP_S).is_success

    try:
        wait_until(
            is_ready,
            deadline_s=START_S,
            what="Prometheus to be ready",
            ignoring=(httpx.TransportError,),
        )
        yield Prometheus(process, url)
    finally:
        process.clean_up()
