"""One estate text that is right, to be made wrong in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import ConfigError

RIGHT = """\
estate: demo
clusters:
  east:
    bootstrap: "127.0.0.1:19092"
  west:
    bootstrap: ["127.0.0.1:29092", "127.0.0.1:29093"]
    security:
      protocol: SASL_SSL
      mechanism: SCRAM-SHA-512
      username: copier
      password: {env: WEST_PASSWORD}
links:
  - from: east
    to: west
    rules:
      - name: orders
        topics: ["orders.*"]
        groups: [".*"]
        naming: prefix
        on_source_loss: fail
        priority: high
"""


def parse(
    text: str = RIGHT, *, directory: Path = Path("/nowhere"), env: dict[str, str] | None = None
) -> Estate:
    return parse_estate(text, "estate.yaml", directory=directory, env=env or {})


def problems(text: str) -> str:
    """What is said of a text that is wrong."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value.message
