"""`acls`: the grants of a fleet as lines for `kafka-acls.sh`, or as JSON. Connects to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mirrorfleet.config.load import load_estate
from mirrorfleet.config.rights import Grantee
from mirrorfleet.operating.access import grant_lines, wanted_grants
from mirrorfleet.operating.terminal import EXIT_OK, Output, print_json, say
from mirrorfleet.policy.acls import Service
from services.cli.run import service_names


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's arguments. No services: those that this release can run, and the jobs."""

    target: str
    services: tuple[str, ...]
    principal: str | None
    host: str


def run(estate_file: Path, asked: Asked, output: Output) -> int:
    """Prints the grants of every cluster of the fleet."""
    estate = load_estate(estate_file)
    known = [name for name in service_names() if name in set(Service)]
    names = asked.services or [*known, Service.SPARK]
    found = wanted_grants(estate, asked.target, names)
    grantee = Grantee(estate, asked.target, asked.principal, asked.host)
    if output is Output.JSON:
        print_json([grantee.as_json(grant) for grant in found])
    else:
        for line in grant_lines(grantee, found):
            say(line)
    return EXIT_OK
