"""What a topic is to an estate: its own, a copy, copied where to, or why not. Pure.

rows of each fleet      the topic as a source: copied; as a target: a copy
rules of each link      where it is neither, and the source has it: which rule, or why none
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.selection import select
from mirrorfleet.views.format import count, plural

if TYPE_CHECKING:
    from mirrorfleet.policy.flows import Flow

COLUMNS: Final = (
    "what",
    "link",
    "topic",
    "other_topic",
    "rule",
    "partitions",
    "lag_records",
    "words",
)
Row = Mapping[str, object]


class What(StrEnum):
    """What a link has to do with a topic."""

    COPIED = "copied"
    COPY = "is a copy"
    TO_COME = "not taken up"
    """A rule takes it; `plan` says what is missing."""
    LEFT_OUT = "not copied"
    UNKNOWN = "not known"
    """The fleet, or the source, does not answer."""


@dataclass(frozen=True, slots=True)
class Role:
    """A topic in the eyes of a link. `problem` is what a person should look at, "" if nothing."""

    what: What
    link: str
    topic: str
    other_topic: str | None = None
    rule: str | None = None
    partitions: int | None = None
    lag_records: int | None = None
    words: str = ""
    problem: str = ""

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        return asdict(self) | {"what": str(self.what)}


@dataclass(frozen=True, slots=True)
class Known:
    """What was asked: the rows of `mapping.standing` by target, and which clusters have the topic.
    Whoever did not answer is in `silent`, with why, and in neither.
    """

    standing: Mapping[str, Sequence[Row]]
    has_topic: Mapping[str, bool]
    silent: Mapping[str, str]


def explained(topic: str, partition: int | None, flows: Sequence[Flow], known: Known) -> list[Role]:
    """A role a link that has one; of a link whose source has no such topic there is none."""
    found: list[Role] = []
    for flow in flows:
        link = str(flow.link)
        rows = [row for row in known.standing.get(flow.link.target, ()) if row["link"] == link]
        copied = _of(rows, "topic", topic, partition)
        copies = [] if copied else _of(rows, "target_topic", topic, partition)
        if copied:
            found.append(_copied(What.COPIED, topic, copied, partition))
        elif copies:
            found.append(_copied(What.COPY, topic, copies, partition))
        elif (other := _not_copied(topic, flow, flows, known)) is not None:
            found.append(other)
    return found


def _of(rows: Iterable[Row], field: str, topic: str, partition: int | None) -> list[Row]:
    return [
        row
        for row in rows
        if row[field] == topic and (partition is None or row["partition"] == partition)
    ]


def _copied(what: What, topic: str, rows: Sequence[Row], partition: int | None) -> Role:
    first = rows[0]
    other = "target_topic" if what is What.COPIED else "topic"
    problems = [row for row in rows if row["problem"]]
    lags = [row["lag_records"] for row in rows]
    told = [lag for lag in lags if isinstance(lag, int)]
    words = _one_words(first) if partition is not None else _all_words(rows)
    problem = ""
    if problems:
        worst = problems[0]
        more = f", and {plural(len(problems) - 1, 'more', 'more')}" if len(problems) > 1 else ""
        problem = f"{worst['topic']}-{worst['partition']}: {worst['problem']}{more}"
        problem = f"{problem}\n  next: {worst['next']}" if worst.get("next") else problem
    return Role(
        what,
        str(first["link"]),
        topic,
        str(first[other]),
        str(first["rule"]),
        len(rows),
        sum(told) if len(told) == len(lags) else None,
        words,
        problem,
    )


def _one_words(row: Row) -> str:
    at, end = row["position"], row["high_watermark"]
    where = f"slot {row['slot']} of {row['owner'] or 'nobody'}"
    place = "nobody has reported it yet"
    if isinstance(at, int):
        place = f"copied up to {count(at)}"
        place = f"{place} of {count(end)}" if isinstance(end, int) else place
    return f"{row['state']}; {place}; {where}"


def _all_words(rows: Sequence[Row]) -> str:
    states: dict[str, int] = {}
    for row in rows:
        states[str(row["state"])] = states.get(str(row["state"]), 0) + 1
    told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    slots = ", ".join(map(str, sorted({int(str(row["slot"])) for row in rows})))
    owners = ", ".join(sorted({str(row["owner"]) for row in rows if row["owner"]})) or "nobody"
    return f"{told}; slots {slots} of {owners}"


def _not_copied(topic: str, flow: Flow, flows: Sequence[Flow], known: Known) -> Role | None:
    """Why a link does not copy a topic of its source; None where that has none of the name."""
    source, target = flow.link
    link = str(flow.link)
    for alias in (target, source):
        if alias in known.silent:
            return Role(What.UNKNOWN, link, topic, words=f"{alias}: {known.silent[alias]}")
    if not known.has_topic.get(source):
        return None
    chosen = select(flow, [topic], estate=flows)
    if chosen.claims:
        first = chosen.claims[0]
        words = f"its rule takes it; what is missing: mirrorfleet plan --target {target}"
        return Role(What.TO_COME, link, topic, first.target_topic, first.rule, words=words)
    if chosen.refusals:
        why = chosen.refusals[0]
        return Role(What.LEFT_OUT, link, topic, rule=why.rule, words=f"{why.why}: {why.detail}")
    return _without_rule(topic, flow)


def _without_rule(topic: str, flow: Flow) -> Role:
    for rule in flow.rules:
        if NameFilter(rule.topics.include).matches(topic):
            words = "the rule's `topics` match it, and its `exclude` takes it out"
            return Role(What.LEFT_OUT, str(flow.link), topic, rule=rule.name, words=words)
    return Role(What.LEFT_OUT, str(flow.link), topic, words="no rule's `topics` match it")
