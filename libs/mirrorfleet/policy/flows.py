"""What the operator wants of a link, as the pure policies see it."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorfleet.core.ids import Link
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.naming import Naming


@dataclass(frozen=True, slots=True)
class FlowRule:
    """A named rule over the topics of a link."""

    name: str
    topics: NameFilter
    groups: NameFilter
    naming: Naming


@dataclass(frozen=True, slots=True)
class Flow:
    """A link with its rules in file order. `never` wins over every rule."""

    link: Link
    rules: tuple[FlowRule, ...]
    never: NameFilter
