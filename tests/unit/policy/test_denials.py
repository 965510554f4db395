"""What a denial that is not there yet limits."""

from __future__ import annotations

import pytest

from mirrorfleet.policy.denials import Denials
from tests.unit.policy.test_crossing import an_acl

ONE = "DENY User:z READ TOPIC LITERAL east.pay"
SOME = "DENY User:z READ TOPIC PREFIXED east."
ALL = "DENY User:z READ TOPIC LITERAL *"
GROUP = "DENY User:z READ GROUP LITERAL east.pay"


@pytest.mark.parametrize(
    ("denial", "topics"),
    [
        (ONE, ["east.pay"]),
        (SOME, ["east.pay", "east.stock"]),
        (ALL, ["east.pay", "east.stock", "orders"]),
        (GROUP, []),
    ],
)
def test_a_topic_is_limited_by_what_is_about_its_name(denial: str, topics: list[str]) -> None:
    denials = Denials([an_acl(denial)])
    found = {name: denials.on_topic(name) for name in ("east.pay", "east.stock", "orders")}

    assert [name for name, by in found.items() if by == an_acl(denial)] == topics
    assert all(by is None for name, by in found.items() if name not in topics)


@pytest.mark.parametrize(
    ("right", "by"),
    [
        ("ALLOW User:* READ TOPIC PREFIXED east.", {ONE, SOME, ALL}),
        ("ALLOW User:z READ TOPIC LITERAL *", {ONE, SOME, ALL}),
        ("ALLOW User:z READ TOPIC PREFIXED east.payroll", {SOME, ALL}),
        ("ALLOW User:z READ TOPIC LITERAL east.stock", {SOME, ALL}),
        ("ALLOW User:z READ TOPIC LITERAL east.pay", {ONE, SOME, ALL}),
        ("ALLOW User:y READ TOPIC PREFIXED east.", set()),
        ("ALLOW User:* READ TOPIC PREFIXED north.", {ALL}),
        ("ALLOW User:* READ GROUP PREFIXED east.", {GROUP}),
    ],
)
def test_a_right_is_limited_by_what_denies_the_same_user_or_all_some_name_of_both(
    right: str, by: set[str]
) -> None:
    found = {
        denial
        for denial in (ONE, SOME, ALL, GROUP)
        if Denials([an_acl(denial)]).on_right(an_acl(right)) is not None
    }

    assert found == by


def test_what_is_denied_to_all_limits_the_right_of_each() -> None:
    everyone = an_acl("DENY User:* READ TOPIC LITERAL east.pay")

    assert (
        Denials([everyone]).on_right(an_acl("ALLOW User:y READ TOPIC PREFIXED east.")) == everyone
    )
