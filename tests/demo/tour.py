"""What the other services did with the demo's traffic: groups, lag, traces, pages, reports.

Each function gives a `Check`: a line of the table at the end, with what was found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
from confluent_kafka import Consumer, Message, TopicPartition

from tests.demo.checks import Check, mirrorfleet
from tests.demo.plan import ESTATE, REPORTS, ROOT
from tests.faultkit.waiting import wait_until
from tests.judge.reading import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.demo.plan import Side
    from tests.faultkit.collector import Collector

READ_AS_GROUP: Final = 137
"""Records of each partition that the group has read before it moves."""
MOVE_S: Final = 30.0
COMMAND_S: Final = 120.0
LAG_S: Final = 30.0
TRACE_S: Final = 20.0
HTTP_S: Final = 10.0
JOBS_S: Final = 300.0
JOBS: Final = "tests.demo.jobs"
"""A process of its own: only it needs Spark."""
STAGES: Final = frozenset(("fetch", "queue", "produce", "commit"))


class Next(NamedTuple):
    """What a consumer is handed: everything of the record but its offset."""

    key: bytes | None
    value: bytes | None
    headers: str
    timestamp: tuple[int, int]


class Group(NamedTuple):
    """A group that stopped somewhere; `following` is what it would read next, by partition."""

    name: str
    topic: str
    following: Mapping[int, Next]


def leave(bootstrap: str, name: str, topic: str, partitions: int) -> Group:
    """Read a part of each partition as a group, commit, and go away."""
    following: dict[int, Next] = {}
    consumer = _consumer(bootstrap, name)
    try:
        for number in range(partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            for _ in range(READ_AS_GROUP):
                message = _next(consumer)
            consumer.commit(message=message, asynchronous=False)
            following[number] = _told(_next(consumer))
    finally:
        consumer.close()
    return Group(name, topic, following)


def check_group(bootstrap: str, side: Side, group: Group) -> Check:
    """Move it over by the command; its first records there are those it had not committed."""
    name = f"{side.name} -> {side.other}: group moved"
    told = _said("failover", group.name, "--target", side.other, "--within", f"{MOVE_S:g}")
    if told.returncode:
        return Check(name, ok=False, found=told.stdout + told.stderr)
    copy = f"{side.name}.{group.topic}"
    places = [TopicPartition(copy, number) for number in group.following]
    consumer = _consumer(bootstrap, group.name)
    try:
        wrong = []
        for place in consumer.committed(places, timeout=HTTP_S):
            consumer.assign([place])
            if _told(_next(consumer)) != group.following[place.partition]:
                wrong.append(f"{copy}-{place.partition}@{place.offset}")
    finally:
        consumer.close()
    found = f"{group.name} goes on at the exact record in {len(places)} partitions of {copy}"
    return Check(name, not wrong, f"another record at {', '.join(wrong)}" if wrong else found)


def check_verified(side: Side) -> Check:
    """The command that compares both sides of a topic finds no difference."""
    topic = side.topics[0].name
    told = _said("verify", topic, "--target", side.other, "-o", "json")
    found = told.stderr
    if not told.returncode:
        rows = json.loads(told.stdout)
        found = f"{sum(row['equal'] for row in rows)} records of {topic} compared, all equal"
    return Check(f"{side.name} -> {side.other}: verified", not told.returncode, found)


def _said(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mirrorfleet(*words, "--estate", str(ESTATE)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )


def _next(consumer: Consumer) -> Message:
    message = consumer.poll(HTTP_S)
    if message is None or message.error() is not None:
        raise LookupError(f"no record to read: {None if message is None else message.error()}")
    return message


def _told(message: Message) -> Next:
    return Next(message.key(), message.value(), repr(message.headers()), message.timestamp())


def check_lag(side: Side, url: str) -> Check:
    """Every partition of the link is up to date, and `lag` says by which rule."""

    def look() -> list[dict[str, object]]:
        rows: list[dict[str, object]] = httpx.get(f"{url}/lag", timeout=HTTP_S).json()
        fine = rows and all(row["verdict"] in {"ok", "idle"} for row in rows)
        return rows if fine else []

    rows = wait_until(look, deadline_s=LAG_S, what=f"lag of {side.name} -> {side.other}")
    link = httpx.get(f"{url}/status", timeout=HTTP_S).json()["links"][0]
    most = max(int(str(row["time_lag_ms"] or 0)) for row in rows)
    return Check(
        f"{side.name} -> {side.other}: lag read",
        bool(rows),
        f"{len(rows)} partitions ok or idle, time lag at most {most} ms, "
        f"last propagation {link['propagation_ms']} ms",
    )


def check_trace(collector: Collector) -> Check:
    """A trace of a batch has all of its stages."""

    def look() -> str:
        for trace_id, spans in collector.traces().items():
            if {span.stage for span in spans} >= STAGES:
                return f"{trace_id}: " + ", ".join(
                    f"{span.stage} {span.seconds * 1000:.1f} ms" for span in spans
                )
        return ""

    found = wait_until(look, deadline_s=TRACE_S, what="a trace with every stage")
    return Check("trace received", bool(found), found)


def check_pages(url: str, topics: Iterable[str]) -> Check:
    """The console shows the estate and the topics of its links."""
    wait_until(
        lambda: httpx.get(f"{url}/", timeout=HTTP_S).is_success,
        deadline_s=LAG_S,
        what="the console's first page",
    )
    page = httpx.get(f"{url}/links/east/west", timeout=HTTP_S)
    missing = [topic for topic in topics if topic not in page.text]
    return Check(
        "console",
        page.is_success and not missing,
        f"{url} shows the estate" if not missing else f"{url}/links/east/west lacks {missing}",
    )


def check_reports(side: Side) -> list[Check]:
    """Run each Spark job once on what the demo copied from this side."""
    about = ("--source", side.name, "--target", side.other, "--topic", side.topics[0].name)
    answer = subprocess.run(
        [sys.executable, "-m", JOBS, "--estate", ESTATE, "--output", REPORTS, *about],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=JOBS_S,
        check=False,
    )
    checks, before = [], ""
    for line in answer.stdout.strip().splitlines():
        match line.split():
            case ["JOB", name, code, seconds]:
                checks.append(Check(f"spark: {name}", code == "0", f"{before} ({seconds} s)"))
            case _:
                before = line
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()[-3:]
        checks.append(Check("spark", ok=False, found="; ".join(said)))
    return checks
