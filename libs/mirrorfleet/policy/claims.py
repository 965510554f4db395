"""Who may write a target topic: one source topic of one link, by one rule.

A claim says: this rule copies that source topic into this target topic. Two claims clash when they
have the same target topic, or when two rules of one link take the same source topic (each record
would be there twice). The first keeps what it has; the second is refused, with both named. What
the rules alone prove, before any topic is known, is found by `provable_clashes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from mirrorfleet.core.ids import Link
from mirrorfleet.policy.cycles import Leg, loop_of
from mirrorfleet.policy.filters import is_literal, literal_prefix
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming


@dataclass(frozen=True, slots=True)
class Claim:
    """That `rule` of `link` copies `source_topic` into `target_topic`."""

    link: Link
    rule: str
    source_topic: str
    target_topic: str

    def __str__(self) -> str:
        return f"rule {self.rule!r} of {self.link} ({self.source_topic} -> {self.target_topic})"


@dataclass(frozen=True, slots=True)
class Clash:
    """`refused` came second; `holder` keeps the topic."""

    refused: Claim
    holder: Claim

    def __str__(self) -> str:
        return f"{self.refused} is refused: {self.holder} has it already"


@dataclass(frozen=True, slots=True)
class Settled:
    """What may be copied, and what may not."""

    accepted: tuple[Claim, ...]
    clashes: tuple[Clash, ...]


def settle(held: Iterable[Claim], wanted: Sequence[Claim]) -> Settled:
    """Decides between claims on one target cluster.

    `held` are those that already run (from the catalog): they keep their target topic, and among
    overlapping rules the one that has a topic keeps it. `wanted` is in file order otherwise. A rule
    may be renamed or split: the same link, source and target topic are the same copy.
    """
    running = list(held)
    by_target = {claim.target_topic: claim for claim in running}
    by_source: dict[tuple[Link, str], Claim] = {}
    accepted: list[Claim] = []
    clashes: list[Clash] = []
    known, copied = set(running), {_copy(claim) for claim in running}
    for claim in sorted(wanted, key=lambda one: (one not in known, _copy(one) not in copied)):
        source = (claim.link, claim.source_topic)
        holder = by_source.get(source) or by_target.get(claim.target_topic)
        if holder is not None and (source in by_source or not _same_copy(holder, claim)):
            clashes.append(Clash(claim, holder))
            continue
        by_target[claim.target_topic] = by_source[source] = claim
        accepted.append(claim)
    return Settled(tuple(accepted), tuple(clashes))


@dataclass(frozen=True, slots=True)
class Proof:
    """That rules clash whatever topics exist; `topic` is a name or a pattern that shows it."""

    legs: tuple[Leg, ...]
    topic: str
    why: str

    def __str__(self) -> str:
        return f"{self.topic!r}: {', '.join(map(str, self.legs))}: {self.why}"


def provable_clashes(flows: Sequence[Flow]) -> list[Proof]:
    """Clashes that the rules alone prove: a name or a pattern that stands in both.

    Two different patterns that meet only on some names are left to run time.
    """
    proofs = [
        *(proof for flow in flows for proof in _overlaps(flow)),
        *_same_target(flows),
        *_two_way(flows),
        *_rings(flows),
    ]
    unique: dict[tuple[frozenset[Leg], str], Proof] = {}
    for proof in proofs:
        unique.setdefault((frozenset(proof.legs), proof.topic), proof)
    return list(unique.values())


def _copy(claim: Claim) -> tuple[Link, str, str]:
    return claim.link, claim.source_topic, claim.target_topic


def _same_copy(holder: Claim, claim: Claim) -> bool:
    return (holder.link, holder.source_topic) == (claim.link, claim.source_topic)


def _shared(first: FlowRule, second: FlowRule, *flows: Flow) -> str | None:
    """A name that both rules take for sure, or a pattern that both list; None when unknown.

    An `exclude`, or a `never` that has to do with the pattern, may keep them apart.
    """
    for name in (*first.topics.literals(), *second.topics.literals()):
        both = first.topics.matches(name) and second.topics.matches(name)
        if both and not any(flow.never.matches(name) for flow in flows):
            return name
    if first.topics.exclude or second.topics.exclude:
        return None
    ones, others = first.topics.include, second.topics.include
    shared = [each for each in ones if {each, ".*"} & set(others)]
    shared += others if ".*" in ones else ()
    return next((one for one in shared if not is_literal(one) and not _is_never(one, flows)), None)


def _is_never(pattern: str, flows: Iterable[Flow]) -> bool:
    """Whether what `never` takes out may be all that matches: the pattern stands there, or even the
    shortest name that it could match is taken out.
    """
    name, _ = literal_prefix(pattern)
    return any(pattern in flow.never.include or flow.never.matches(name) for flow in flows)


def _pairs(first: Flow, second: Flow) -> Iterator[tuple[tuple[Leg, Leg], str]]:
    """Identity rules of two flows that share a topic."""
    for one in first.rules:
        for other in second.rules:
            shared = _shared(one, other, first, second)
            if one.naming is other.naming is Naming.IDENTITY and shared is not None:
                yield (Leg(first.link, one.name), Leg(second.link, other.name)), shared


def _overlaps(flow: Flow) -> Iterator[Proof]:
    for first, second in combinations(flow.rules, 2):
        shared = _shared(first, second, flow)
        if shared is not None:
            legs = Leg(flow.link, first.name), Leg(flow.link, second.name)
            yield Proof(legs, shared, "both rules take it, so it would be copied twice")


def _same_target(flows: Sequence[Flow]) -> Iterator[Proof]:
    for first, second in combinations(flows, 2):
        if first.link.target == second.link.target:
            for legs, shared in _pairs(first, second):
                yield Proof(legs, shared, "both would write the same target topic")


def _two_way(flows: Sequence[Flow]) -> Iterator[Proof]:
    for first, second in combinations(flows, 2):
        if first.link == Link(second.link.target, second.link.source):
            for legs, shared in _pairs(first, second):
                yield Proof(legs, shared, "the same name both ways is not supported yet")


def _rings(flows: Sequence[Flow]) -> Iterator[Proof]:
    """By a name, or by a pattern that stands in every leg: each would refuse what it copies."""
    for flow in flows:
        for rule in flow.rules:
            names = {name: [name] for name in rule.topics.literals()} | _witnesses(rule)
            for text, each in names.items():
                ways = [
                    () if flow.never.matches(n) else loop_of(flows, flow, rule, n) for n in each
                ]
                if all(ways) and (text in each or _stands_in(flows, ways[0], text)):
                    yield Proof(ways[0], text, "it would come back to where it came from")


def _witnesses(rule: FlowRule) -> dict[str, list[str]]:
    """By pattern of a rule, names that the rule takes, where some are easily found."""
    found: dict[str, list[str]] = {}
    for pattern in rule.topics.include:
        prefix, is_whole = literal_prefix(pattern)
        names = () if is_whole else (prefix, f"{prefix}a", f"{prefix}0")
        fitting = [name for name in names if name and rule.topics.matches(name)]
        if fitting:
            found[pattern] = fitting
    return found


def _stands_in(flows: Iterable[Flow], way: Iterable[Leg], pattern: str) -> bool:
    """Whether all legs list a pattern, or take everything, under the same name; an `exclude` may
    keep them apart.
    """
    legs = set(way)
    return all(
        rule.naming is Naming.IDENTITY
        and not rule.topics.exclude
        and {pattern, ".*"} & {*rule.topics.include}
        for flow in flows
        for rule in flow.rules
        if Leg(flow.link, rule.name) in legs
    )
