"""`validate`: the estate by itself, and with --live against the clusters. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum, auto
from importlib import import_module
from pathlib import Path

from mirrorfleet.config.flows import all_flows, targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output
from mirrorfleet.operating.validated import show_report
from mirrorfleet.watching.estate import Report, check_file, check_live, rule_row


class Depth(Enum):
    """How far to look."""

    FILE = auto()
    LIVE = auto()


def run(estate_file: Path, target: str | None, output: Output, depth: Depth) -> int:
    """Loads, checks, prints; 0 or 1."""
    estate = load_estate(estate_file)
    targets = targets_of(estate, target)
    flows = [flow for flow in all_flows(estate) if flow.link.target in targets]
    report = Report(problems=list(_tuning_problems(estate)))
    check_file(estate, flows, report)
    if depth is Depth.LIVE and not report.problems:
        asyncio.run(check_live(estate, flows, report, open_cluster))
    elif depth is Depth.FILE:
        report.rules = [rule_row(flow, rule.name, None) for flow in flows for rule in flow.rules]
    show_report(estate_file, report, output)
    return EXIT_ERROR if report.problems else EXIT_OK


def _tuning_problems(estate: Estate) -> Iterator[str]:
    """What a service would refuse when it starts; found by its name, as `run` finds the service."""
    for name, subtree in estate.services.items():
        try:
            settings = import_module(f"services.{name}.settings")
            parsed = settings.parse(subtree)
            if name == "console":
                settings.token_of(estate, parsed)
        except ConfigError as error:
            yield f"line {estate.line_of(error.path)} {error}"
