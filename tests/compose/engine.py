"""Docker and Compose as commands: which ones, with what environment, what they answer.

Everything goes to the engine that DOCKER_HOST (or Docker's own context) names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
OWN_COMPOSE = ROOT / ".local/compose/docker-compose"
"""Made by make with Go, where Docker has no plugin of its own."""

ANSWER_S = 60.0
BUILD_S = 1800.0
PULL_S = 120.0


class EngineError(Exception):
    """Raised when Docker or Compose does not do what it was told; says what it answered."""


def run(
    command: Sequence[str], *, deadline_s: float = ANSWER_S, env: Mapping[str, str] | None = None
) -> str:
    """Run a command and give its output.

    Raises:
        EngineError: it failed, or took too long; with the end of what it said.
    """
    try:
        answer = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{' '.join(command[:4])}: {error}") from error
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()[-15:]
        raise EngineError(f"{' '.join(command[:6])} failed:\n" + "\n".join(said))
    return answer.stdout


def docker(*arguments: str, deadline_s: float = ANSWER_S) -> str:
    """`docker ...`. Raises: EngineError."""
    return run([_docker(), *arguments], deadline_s=deadline_s)


@cache
def _docker() -> str:
    """The first `docker` on PATH that gets an answer: a newer client may refuse an older engine."""
    found = [shutil.which("docker"), shutil.which("docker", path="/usr/bin:/usr/local/bin")]
    for each in filter(None, found):
        try:
            run([each, "version"], deadline_s=ANSWER_S)
        except EngineError:
            continue
        return each
    raise EngineError("no Docker engine answers: start one, or set DOCKER_HOST.")


def has_image(name: str) -> bool:
    """Whether the engine has it already."""
    try:
        docker("image", "inspect", name)
    except EngineError:
        return False
    return True


def pulls(name: str) -> bool:
    """Whether the image is there, or a registry gives it."""
    if has_image(name):
        return True
    try:
        docker("pull", "--quiet", name, deadline_s=PULL_S)
    except EngineError:
        return False
    return True


@cache
def compose_command() -> tuple[str, ...]:
    """Docker's own Compose where it is a plugin, else ours, built once."""
    try:
        docker("compose", "version")
    except EngineError:
        run(["make", str(OWN_COMPOSE.relative_to(ROOT))], deadline_s=BUILD_S)
        return (str(OWN_COMPOSE),)
    return (_docker(), "compose")


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the project as Compose shows it. `health`: empty without a health check."""

    name: str
    service: str
    state: str
    health: str

    @property
    def is_well(self) -> bool:
        """Whether it runs, and says that it does its job if it can say so."""
        return self.state == "running" and self.health in ("", "healthy")


@dataclass(frozen=True, slots=True)
class Project:
    """Containers of docker-compose.yml under a name of their own, beside any that run already."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict)

    def compose(self, *arguments: str, deadline_s: float = ANSWER_S) -> str:
        """`docker compose ...`. Raises: EngineError."""
        command = [*compose_command(), "--project-name", self.name, *arguments]
        return run(command, deadline_s=deadline_s, env=self.env)

    def containers(self) -> list[Container]:
        """All of them, ended ones too."""
        lines = self.compose("ps", "--all", "--format", "json").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [Container(row["Name"], row["Service"], row["State"], row["Health"]) for row in rows]

    def container(self, service: str) -> Container:
        """The only one of a service. Raises: EngineError."""
        found = [each for each in self.containers() if each.service == service]
        if len(found) != 1:
            raise EngineError(f"{service} has {len(found)} containers, not one.")
        return found[0]

    def inside(self, container: str, *command: str) -> str:
        """What a command says in a running container. Raises: EngineError."""
        return docker("exec", container, *command)
