"""For how long a token is given out."""

from __future__ import annotations

import base64
import json

import pytest

from mirrorfleet.kafka.kept_token import KeptToken, lifetime_s

NOW_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("age_s", "beyond_s", "fresh", "lasts"),
    [
        (0, 0, True, True),
        (79, 0, True, True),
        (81, 0, False, True),
        (94, 0, False, True),
        (96, 0, False, False),
        (50, 30, True, True),
        (50, 50, False, False),
        (85, 5, False, True),
        (85, 15, False, False),
    ],
)
def test_a_token_is_good_while_it_gives_a_session_worth_it(
    age_s: float, beyond_s: float, *, fresh: bool, lasts: bool
) -> None:
    token = KeptToken("t", 1_000.0, 1_100.0)
    assert token.is_fresh(1_000.0 + age_s, beyond_s) is fresh
    assert token.lasts(1_000.0 + age_s, beyond_s) is lasts


@pytest.mark.parametrize("life_s", [6.0, 20.0, 60.0, 3_600.0])
def test_connections_that_renew_sessions_as_long_as_their_token_share_the_next(
    life_s: float,
) -> None:
    left_s = min(life_s / 2, max(life_s * 0.15, 10.0))
    before = KeptToken("before", 0.0, life_s)
    after = KeptToken("after", life_s - left_s, 2 * life_s - left_s)
    assert not before.is_fresh(life_s - left_s, left_s)
    assert not before.lasts(life_s - left_s, left_s)
    assert after.is_fresh(life_s - left_s + 0.5, left_s - 0.5)


@pytest.mark.parametrize("life_s", [0.0, 5.0])
def test_a_token_of_a_few_seconds_is_used_once(life_s: float) -> None:
    assert not KeptToken("t", 0.0, life_s).is_fresh(0.0, 0.0)


def jwt(claims: object) -> str:
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


@pytest.mark.parametrize(
    ("said", "token", "expected_s"),
    [
        ({"expires_in": 60}, "t", 60),
        ({"expires_in": "60"}, "t", 60),
        ({"expires_in": 60}, jwt({"exp": NOW_S + 5}), 60),
        ({}, jwt({"exp": NOW_S + 5}), 5),
        ({"expires_in": None}, jwt({"exp": NOW_S + 5}), 5),
        ({"expires_in": "soon"}, jwt({"exp": NOW_S + 5}), 5),
        ({"expires_in": float("inf")}, "t", 0),
        ({"expires_in": -1}, "t", 0),
        ({}, jwt({"exp": NOW_S - 5}), 0),
        ({}, jwt({}), 0),
        ({}, jwt([1]), 0),
        ({}, "a.b.c", 0),
        ({}, "\u00e4.\u00e4.c", 0),
        ({}, "", 0),
    ],
)
def test_a_life_is_what_the_answer_or_the_token_says(
    said: dict[str, object], token: str, expected_s: float
) -> None:
    assert lifetime_s(said, token, NOW_S) == pytest.approx(expected_s)
