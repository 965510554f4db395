"""Patterns: whole names, Java's dialect, and what they grant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.policy.filters import NameFilter, compile_pattern, is_literal, literal_prefix

CASES = yaml.safe_load(Path("tests/golden/policy_filters.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_filter_takes_exactly_these_names(case: dict[str, list[str]]) -> None:
    names = NameFilter(tuple(case["include"]), tuple(case.get("exclude", ())))
    assert [name for name in case["yes"] if not names.matches(name)] == []
    assert [name for name in case["no"] if names.matches(name)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "the pattern is empty and would match no topic."),
        ("orders(", "missing ), unterminated subpattern at position 6"),
        ("*", "nothing to repeat at position 0"),
        ("[a&&b]", "set intersection (&&) is Java's; write the set out"),
        ("[a[b]]", "a set inside a set is Java's; write the set out"),
        (r"\p{Greek}", r"\p{Greek} is not known; write the characters out"),
    ],
)
def test_a_pattern_that_would_mean_something_else_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_pattern(pattern)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("orders", ("orders", True)),
        ("orders.eu", ("orders.eu", True)),
        ("orders.*", ("orders", False)),
        (r"orders\..*", ("orders.", False)),
        ("orders?", ("order", False)),
        ("ab{2}", ("a", False)),
        ("ab+", ("ab", False)),
        ("a[bc]", ("a", False)),
        ("ab|cd", ("", False)),
        (r"a\d", ("a", False)),
        (".*", ("", False)),
    ],
)
def test_a_pattern_grants_what_all_its_matches_begin_with(
    pattern: str, prefix: tuple[str, bool]
) -> None:
    assert literal_prefix(pattern) == prefix


def test_literals_are_the_plain_names_that_stay() -> None:
    names = NameFilter(("a", "b", "c.*"), ("b",))
    assert names.literals() == ("a",)
    assert is_literal("a-b_c.d")
    assert not is_literal("a*")
