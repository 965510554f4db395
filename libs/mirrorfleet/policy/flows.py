"""What the operator wants of a link, as the pure policies see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mirrorfleet.core.ids import Link
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.naming import HEARTBEATS, Naming, is_heartbeats_topic


class AclPolicy(StrEnum):
    """What a link does with ACLs."""

    IGNORE = "ignore"
    """Nothing. The default: following takes the right to ALTER the target cluster."""
    ADD = "add"
    """What is missing is added; nothing is taken back, as MM2."""
    MIRROR = "mirror"
    """And what we added is removed when the source no longer has it."""


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
    acls: AclPolicy = AclPolicy.IGNORE

    def takes(self, rule: FlowRule, topic: str) -> bool:
        """Whether `rule`, one of ours, is about the source's `topic`.

        Heartbeats topics are copied whatever the patterns say, by the first rule when none names
        them: hops are counted by them. Source: MM2's MirrorSourceConnector.shouldReplicateTopic.
        """
        if rule.topics.matches(topic):
            return True
        if not topic.endswith(HEARTBEATS) or rule != self.rules[0]:
            return False
        return is_heartbeats_topic(topic) and not any(r.topics.matches(topic) for r in self.rules)

    def wants(self, topic: str) -> bool:
        """Whether some rule is about the source's `topic`."""
        return any(self.takes(rule, topic) for rule in self.rules)
