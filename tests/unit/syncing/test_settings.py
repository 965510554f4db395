"""The settings of sync, and what the rules of the estate say to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.planning.rules import Apply, ConfigPolicy, ReplicationPolicy, RuleTerms
from mirrorfleet.records.catalog import Priority
from mirrorfleet.syncing.settings import parse, terms_of

ESTATE = """
estate: e
clusters:
  east: {bootstrap: "h:1"}
  west: {bootstrap: "h:2", replication_factor: 3}
  north: {bootstrap: "h:3"}
links:
  - from: east
    to: west
    rules:
      - {name: plain, topics: [a]}
      - {name: full, topics: [b], on_source_loss: recopy, null_keys: drop-recorded,
         priority: high, start: latest, throttle: 65536, adopt: true, replication_factor: source,
         configs: ignore, configs_exclude: [retention.ms], apply: manual}
  - {from: east, to: north, rules: [{name: one, topics: [a], replication_factor: broker-default}]}
"""


def test_defaults_show_a_change_within_5_s() -> None:
    settings = parse({})

    assert settings.apply is Apply.AUTO
    assert settings.period_s + settings.confirm_s < 4
    assert settings.period_s + settings.acls_period_s <= 5


@pytest.mark.parametrize(
    ("subtree", "said"),
    [
        ({"aply": "manual"}, r"services\.sync\.aply"),
        ({"apply": "sometimes"}, r"services\.sync\.apply: .*'auto' or 'manual'"),
        ({"period_s": 0}, r"services\.sync\.period_s"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path(subtree: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(subtree)


def test_a_rule_says_its_terms_and_the_cluster_what_it_leaves_open() -> None:
    estate = parse_estate(ESTATE, "e.yaml", directory=Path())
    west, north = estate.links

    assert terms_of(west, estate.cluster("west"), Apply.AUTO) == {
        "plain": RuleTerms(replication=3),
        "full": RuleTerms(
            start="latest",
            on_source_loss="recopy",
            null_keys="drop-recorded",
            priority=Priority.HIGH,
            throttle=65_536,
            adopt=True,
            replication=ReplicationPolicy.SOURCE,
            configs=ConfigPolicy.IGNORE,
            configs_exclude=frozenset({"retention.ms"}),
            apply=Apply.MANUAL,
        ),
    }
    assert terms_of(north, estate.cluster("north"), Apply.MANUAL)["one"] == RuleTerms(
        replication=ReplicationPolicy.BROKER_DEFAULT, apply=Apply.MANUAL
    )
