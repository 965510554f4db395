"""What a topic is to each link, in rows and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.views.explaining import Known, Role, What, explained

EAST, WEST = ClusterAlias("east"), ClusterAlias("west")
RULE = FlowRule("all", NameFilter((".*",), ("tmp.*",)), NameFilter(()), Naming.PREFIX)
THERE = Flow(Link(EAST, WEST), (RULE,), NameFilter(("secret",)))
BACK = Flow(
    Link(WEST, EAST), (replace(RULE, topics=NameFilter(("west-.*", "east.*"))),), THERE.never
)
ROW: Final[dict[str, object]] = {
    "link": "east->west",
    "topic": "orders",
    "partition": 0,
    "target_topic": "east.orders",
    "state": "live",
    "position": 1000,
    "high_watermark": 1200,
    "lag_records": 200,
    "slot": 3,
    "owner": "a",
    "rule": "all",
    "problem": None,
    "next": None,
}
SECOND = ROW | {"partition": 1, "lag_records": 5, "slot": 1, "owner": "b"}
FAULTED = SECOND | {
    "state": "faulted",
    "lag_records": None,
    "problem": "retention overtook it",
    "next": "mirrorfleet resolve",
}
BOTH = {"east": True, "west": False}


def known(*rows: dict[str, object], **has_topic: bool) -> Known:
    return Known({"west": rows, "east": ()}, BOTH | has_topic, {})


def one(topic: str, found: Known, partition: int | None = None) -> Role:
    (role,) = explained(topic, partition, (THERE, BACK), found)
    return role


def test_a_topic_is_copied_or_a_copy() -> None:
    source = one("orders", known(ROW, SECOND))
    assert source == Role(
        What.COPIED,
        "east->west",
        "orders",
        "east.orders",
        "all",
        2,
        205,
        "2 live; slots 1, 3 of a, b",
    )
    assert source.row()["what"] == "copied"

    roles = explained("east.orders", None, (THERE, BACK), known(ROW, east=False, west=True))
    assert [(role.what, role.link, role.other_topic) for role in roles] == [
        (What.COPY, "east->west", "orders"),
        (What.LEFT_OUT, "west->east", None),
    ]
    assert roles[1].words == "cycle: by its name it came from east"


def test_a_partition_is_told_with_its_place() -> None:
    found = one("orders", known(ROW, SECOND), partition=0)

    assert (found.partitions, found.lag_records) == (1, 200)
    assert found.words == "live; copied up to 1,000 of 1,200; slot 3 of a"
    nobody = one("orders", known(ROW | {"position": None, "owner": None}), partition=0)
    assert nobody.words == "live; nobody has reported it yet; slot 3 of nobody"


def test_what_is_wrong_with_some_is_told_with_what_helps() -> None:
    found = one("orders", known(ROW, FAULTED, FAULTED | {"partition": 2}))

    assert found.problem == (
        "orders-1: retention overtook it, and 1 more\n  next: mirrorfleet resolve"
    )
    assert found.words == "2 faulted, 1 live; slots 1, 3 of a, b"
    assert found.lag_records is None


@pytest.mark.parametrize(
    ("topic", "what", "rule", "words"),
    [
        ("new", What.TO_COME, "all", "its rule takes it; what is missing: mirrorfleet plan"),
        ("tmp-1", What.LEFT_OUT, "all", "its `exclude` takes it out"),
        ("secret", What.LEFT_OUT, "all", "never: it is on a `never` list"),
        ("__offsets", What.LEFT_OUT, "all", "internal: internal topics are never copied"),
        ("west.carts", What.LEFT_OUT, "all", "cycle: by its name it came from west"),
    ],
)
def test_why_a_topic_is_not_copied(topic: str, what: What, rule: str, words: str) -> None:
    found = one(topic, known(ROW))

    assert (found.what, found.rule, found.link) == (what, rule, "east->west")
    assert words in found.words


def test_a_topic_that_no_rule_matches() -> None:
    (found,) = explained("orders", None, (BACK,), known(east=False, west=True))

    assert (found.what, found.rule, found.words) == (
        What.LEFT_OUT,
        None,
        "no rule's `topics` match it",
    )


def test_of_a_link_whose_source_has_no_such_topic_nothing_is_said() -> None:
    assert explained("nothing", None, (THERE, BACK), known(ROW, east=False)) == []


@pytest.mark.parametrize("alias", ["east", "west"])
def test_who_does_not_answer_is_named(alias: str) -> None:
    rows = {} if alias == "west" else {"west": ()}
    silent = Known(rows, {}, {alias: "no answer"})

    (found, _) = explained("orders", None, (THERE, BACK), silent)

    assert (found.what, found.words) == (What.UNKNOWN, f"{alias}: no answer")
