"""Configs follow the source entry by entry, and only where there is a real difference."""

from __future__ import annotations

import pytest

from mirrorfleet.planning.configs import ConfigEdit, config_edits, first_configs
from mirrorfleet.planning.observed import SourceTopic, TargetTopic, TopicTerms
from mirrorfleet.planning.rules import ConfigPolicy, RuleTerms
from tests.unit.planning.samples import SOURCE_ID, TARGET_ID

FOREVER = "9223372036854775807"
EXACT = {
    "compression.type": "producer",
    "message.timestamp.after.max.ms": FOREVER,
    "message.timestamp.before.max.ms": FOREVER,
}
KAFKA_4 = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": FOREVER,
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
}


def a_source(defaults: dict[str, str] | None = None, **configs: str) -> SourceTopic:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    terms = TopicTerms.of({**(defaults or {}), **own})
    return SourceTopic(name="a", topic_id=SOURCE_ID, partitions=1, terms=terms, overrides=own)


def a_target(**configs: str) -> TargetTopic:
    """A topic whose copies are exact unless `configs` say otherwise."""
    own = {name.replace("_", "."): value for name, value in configs.items()}
    return TargetTopic(
        name="east.a",
        topic_id=TARGET_ID,
        partitions=1,
        configs={**KAFKA_4, "message.timestamp.after.max.ms": FOREVER, **own},
        overrides=own,
    )


def edits(
    source: SourceTopic, target: TargetTopic, terms: RuleTerms | None = None
) -> list[tuple[str, str | None, str | None]]:
    found = config_edits(source, target, terms or RuleTerms(), defaults=KAFKA_4)
    return [tuple(each) for each in found]  # type: ignore[misc]  # a NamedTuple is that tuple


def test_the_limit_of_brokers_before_4_is_lifted_with_the_two_that_came_after_it() -> None:
    """Where they are unlimited it is what counts, and nobody sees that of them."""
    week, name = "604800000", "message.timestamp.difference.max.ms"
    older = KAFKA_4 | {name: week}
    source = a_source(older, message_timestamp_difference_max_ms=week)

    assert first_configs(source, RuleTerms(), older)[name] == FOREVER
    assert name not in first_configs(source, RuleTerms(), KAFKA_4)
    there = a_target(message_timestamp_difference_max_ms=week)
    assert edits(source, there) == [(name, week, FOREVER)]
    assert edits(source, a_target()) == []


def test_what_was_set_at_the_source_is_set_there() -> None:
    assert edits(a_source(retention_ms="1000", segment_ms="5"), a_target(segment_ms="5")) == [
        ("retention.ms", None, "1000")
    ]


def test_another_value_is_changed_and_one_taken_away_goes_back_to_the_default() -> None:
    assert edits(a_source(retention_ms="2"), a_target(retention_ms="1", segment_ms="5")) == [
        ("retention.ms", "1", "2"),
        ("segment.ms", "5", None),
    ]


def test_the_same_is_no_change() -> None:
    assert edits(a_source(retention_ms="2"), a_target(retention_ms="2")) == []


def test_a_default_of_the_sources_brokers_is_no_override_of_ours() -> None:
    assert edits(a_source({"retention.ms": "1000"}), a_target()) == []


@pytest.mark.parametrize(
    "name",
    [
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "local.retention.ms",
    ],
)
def test_matters_of_a_cluster_never_follow_in_either_direction(name: str) -> None:
    key = name.replace(".", "_")

    assert edits(a_source(None, **{key: "1"}), a_target(**{key: "2"})) == []
    assert edits(a_source(), a_target(**{key: "2"})) == []
    assert name == "message.timestamp.type" or name not in first_configs(
        a_source(None, **{key: "x"}), RuleTerms(), {}
    )


@pytest.mark.parametrize("name", EXACT)
def test_what_makes_a_copy_exact_never_follows_and_is_set_back(name: str) -> None:
    key = name.replace(".", "_")

    assert edits(a_source(None, **{key: "1"}), a_target()) == []
    assert edits(a_source(), a_target(**{key: "2"})) == [(name, "2", EXACT[name])]


def test_what_a_rule_excludes_does_not_follow() -> None:
    terms = RuleTerms(configs_exclude=frozenset({"retention.ms", "cleanup.policy"}))
    source = a_source(retention_ms="2", cleanup_policy="compact", segment_ms="3")

    assert edits(source, a_target(retention_ms="1"), terms) == [("segment.ms", None, "3")]
    assert first_configs(source, terms, KAFKA_4).keys() & terms.configs_exclude == set()


def test_a_rule_that_ignores_configs_sets_only_what_a_copy_needs() -> None:
    terms = RuleTerms(configs=ConfigPolicy.IGNORE)
    source = a_source(retention_ms="2", max_message_bytes="5000000")

    assert edits(source, a_target(), terms) == [("max.message.bytes", "1048588", "5000000")]


def test_the_largest_batch_is_left_to_the_target_where_its_rule_says_so() -> None:
    """What is larger stops its partition, and says why."""
    terms = RuleTerms(configs_exclude=frozenset({"max.message.bytes"}))
    source = a_source({"max.message.bytes": "5000000"})

    assert edits(a_source(max_message_bytes="5000000"), a_target(), terms) == []
    assert "max.message.bytes" not in first_configs(source, terms, KAFKA_4)


def test_a_name_that_the_target_does_not_know_is_left_out() -> None:
    source = a_source(message_downconversion_enable="false")

    assert edits(source, a_target()) == []
    assert "message.downconversion.enable" not in first_configs(source, RuleTerms(), KAFKA_4)


def test_smaller_batches_at_the_source_never_lower_the_target() -> None:
    assert edits(a_source(max_message_bytes="1000"), a_target()) == []
    assert edits(a_source(), a_target(max_message_bytes="5000000")) == []


def test_the_effective_cleanup_policy_is_the_same_whoever_set_it() -> None:
    by_broker = a_source({"cleanup.policy": "compact"})

    assert edits(by_broker, a_target()) == [("cleanup.policy", "delete", "compact")]
    assert edits(by_broker, a_target(cleanup_policy="compact")) == []
    assert edits(a_source(), a_target(cleanup_policy="delete")) == []
    assert edits(a_source(), a_target(cleanup_policy="compact")) == [
        ("cleanup.policy", "compact", None)
    ]


def test_configs_that_we_may_not_read_change_nothing() -> None:
    hidden = SourceTopic(name="a", topic_id=SOURCE_ID, partitions=1, overrides=None)
    unread = TargetTopic(name="east.a", topic_id=TARGET_ID, partitions=1, overrides=None)

    assert edits(hidden, a_target(retention_ms="1")) == []
    assert edits(a_source(retention_ms="1"), unread) == []


@pytest.mark.parametrize("policy", ConfigPolicy)
def test_a_topic_gets_what_makes_its_copy_exact_and_no_more_than_it_lacks(
    policy: ConfigPolicy,
) -> None:
    terms = RuleTerms(configs=policy)
    lacking = a_target(compression_type="gzip", message_timestamp_after_max_ms="3600000")

    assert edits(a_source(), a_target(), terms) == []
    assert edits(a_source(), lacking, terms) == [
        ("compression.type", "gzip", "producer"),
        ("message.timestamp.after.max.ms", "3600000", FOREVER),
    ]


def test_what_makes_a_copy_exact_is_left_as_it_is_where_a_rule_excludes_it() -> None:
    terms = RuleTerms(configs_exclude=frozenset({"compression.type"}))
    lacking = a_target(compression_type="gzip", message_timestamp_after_max_ms="3600000")

    assert edits(a_source(), lacking, terms) == [
        ("message.timestamp.after.max.ms", "3600000", FOREVER)
    ]


def test_a_value_that_we_may_not_read_is_what_it_is_assumed_to_be() -> None:
    unread = TargetTopic(name="east.a", topic_id=TARGET_ID, partitions=1, overrides=None)

    found = config_edits(a_source(), unread, RuleTerms(), defaults=KAFKA_4, assumed=KAFKA_4)

    assert found == (ConfigEdit("message.timestamp.after.max.ms", "3600000", FOREVER),)


def test_a_new_topic_takes_what_was_set_at_the_source_and_the_size_that_counts_there() -> None:
    source = a_source(
        {"max.message.bytes": "9000000"}, cleanup_policy="compact,delete", retention_ms="-1"
    )

    assert first_configs(source, RuleTerms(), KAFKA_4) == {
        "cleanup.policy": "compact,delete",
        "compression.type": "producer",
        "max.message.bytes": "9000000",
        "message.timestamp.after.max.ms": FOREVER,
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
    }


def test_an_edit_reads_as_from_and_to() -> None:
    assert str(ConfigEdit("retention.ms", None, "5")) == "retention.ms: default -> 5"
    assert str(ConfigEdit("retention.ms", "5", None)) == "retention.ms: 5 -> default"
