"""One cluster has one name among the targets, and among the sources of a target."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from tests.unit.config.making import RIGHT, parse


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (
            "east",
            "twin",
            "links[1].to: 'west' and 'twin' have the same bootstrap 127.0.0.1:29093",
        ),
        (
            "again",
            "west",
            "links[1].from: 'east' and 'again' have the same bootstrap 127.0.0.1:19092",
        ),
    ],
    ids=["two targets", "two sources of one target"],
)
def test_one_cluster_under_two_names_is_refused_also_in_two_links(
    source: str, target: str, said: str
) -> None:
    twins = '  twin: {bootstrap: "127.0.0.1:29093"}\n  again: {bootstrap: "127.0.0.1:19092"}\n'
    link = f"  - {{from: {source}, to: {target}, rules: [{{name: more, topics: [a]}}]}}\n"

    with pytest.raises(ConfigError) as caught:
        parse(RIGHT.replace("links:\n", f"{twins}links:\n") + link)
    assert f"{said}: that is one cluster under two names." in caught.value.message


def test_a_cluster_may_have_another_name_for_the_way_back() -> None:
    twins = '  again: {bootstrap: "127.0.0.1:29092"}\n'
    link = "  - {from: again, to: east, rules: [{name: more, topics: [a]}]}\n"

    assert len(parse(RIGHT.replace("links:\n", f"{twins}links:\n") + link).links) == 2
