"""The plan of a link: what is created, grown, published, kept and refused, rule by rule."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import ClusterId, PartitionIdentity, SlotNumber
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.plan import Growth, Plan
from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.records.catalog import CatalogLoss, CatalogPartition, CatalogState, Priority
from tests.unit.planning.anew import asked_anew, first_of_two
from tests.unit.planning.samples import (
    CLAIM,
    EAST,
    LINK,
    OTHER_ID,
    SOURCE_ID,
    TARGET_ID,
    UNCLAIMED,
    Scene,
    copied,
    orders,
    planned,
)


def published(partitions: int = 2, terms: RuleTerms | None = None) -> tuple[CatalogPartition, ...]:
    return planned(orders(partitions), copied(partitions), terms=terms).publish


def held_reasons(*held: Held) -> list[tuple[str, Reason]]:
    return [(each.topic, each.reason) for each in held]


def test_a_new_topic_is_created_first_and_not_yet_in_the_catalog() -> None:
    result = planned(orders(3), None)

    assert [(each.spec.name, each.spec.partitions) for each in result.create] == [
        ("east.orders", 3)
    ]
    assert result.publish == ()


def test_a_created_topic_gets_an_entry_a_partition_spread_over_the_slots() -> None:
    result = planned(orders(2, retention_ms=1000), copied(2))

    assert result.publish == (
        CatalogPartition(
            identity=PartitionIdentity(EAST, SOURCE_ID, 0, TARGET_ID, 0),
            link=LINK,
            source_topic="orders",
            target_topic="east.orders",
            slot=SlotNumber(0),
            rule="all",
            origins=(EAST,),
            source_retention_ms=1000,
        ),
        CatalogPartition(
            identity=PartitionIdentity(EAST, SOURCE_ID, 1, TARGET_ID, 0),
            link=LINK,
            source_topic="orders",
            target_topic="east.orders",
            slot=SlotNumber(1),
            rule="all",
            origins=(EAST,),
            source_retention_ms=1000,
        ),
    )
    assert not result.changes_topics


def test_what_is_in_step_has_an_empty_plan() -> None:
    result = planned(orders(), copied(), entries=published())

    assert result.pending == 0
    assert result.held == ()


def test_a_source_that_grew_grows_the_target_before_the_catalog() -> None:
    entries = published(2)

    before = planned(orders(4), copied(2), entries=entries)
    after = planned(orders(4), copied(4), entries=entries)

    assert before.grow == (Growth(CLAIM, 4, 2),)
    assert before.publish == ()
    assert [(each.identity.partition, each.slot) for each in after.publish] == [(2, 0), (3, 1)]


def test_a_target_with_more_partitions_than_the_source_is_left_alone() -> None:
    assert planned(orders(2), copied(8), entries=published(2)).pending == 0


def test_a_slot_is_never_changed_once_assigned() -> None:
    entries = tuple(replace(entry, slot=SlotNumber(1)) for entry in published(2))

    result = planned(orders(3), copied(3), entries=entries)

    assert [(each.identity.partition, each.slot) for each in result.publish] == [(2, 0)]


def test_new_partitions_of_a_known_topic_start_at_the_beginning() -> None:
    terms = RuleTerms(start="latest")
    entries = published(1, terms)

    result = planned(orders(2), copied(2), entries=entries, terms=terms)

    assert [each.start for each in entries] == ["latest"]
    assert [each.start for each in result.publish] == ["earliest"]


def test_changed_terms_are_published_and_keep_slot_start_and_pause() -> None:
    paused = tuple(replace(entry, state=CatalogState.PAUSED) for entry in published(1))

    result = planned(
        orders(1, retention_ms=5, cleanup_policy="compact,delete"),
        copied(1, configs={"max.message.bytes": "2000000", "cleanup.policy": "compact"}),
        entries=paused,
        terms=RuleTerms(priority=Priority.HIGH, throttle=9, null_keys="drop-recorded"),
    )

    assert result.publish == (
        replace(
            paused[0],
            priority=Priority.HIGH,
            throttle=9,
            null_keys="drop-recorded",
            target_max_batch_bytes=2_000_000,
            target_compacted=True,
            source_compacted=True,
            source_retention_ms=5,
        ),
    )


def test_how_long_records_stay_is_not_known_where_their_configs_may_not_be_read() -> None:
    """Kafka's default would be an alert that is late, or one for nothing."""
    hidden = replace(orders(1), overrides=None)
    (entry,) = planned(hidden, copied(1), terms=RuleTerms()).publish
    assert entry.source_retention_ms is None
    (entry,) = planned(orders(1, retention_ms=5), copied(1), terms=RuleTerms()).publish
    assert entry.source_retention_ms == 5


def test_missing_keys_matter_only_where_the_target_is_compacted() -> None:
    (entry,) = planned(orders(1), copied(1), terms=RuleTerms(null_keys="fail")).publish
    assert entry.null_keys == "allow"


def test_a_target_topic_with_records_of_others_is_refused() -> None:
    result = planned(orders(), copied(empty=False))

    assert held_reasons(*result.held) == [("orders", Reason.NOT_EMPTY)]
    assert result.pending == 0
    assert "adopt: true" in result.held[0].detail


def test_adopt_takes_a_target_topic_with_records_and_makes_it_fit() -> None:
    result = planned(
        orders(1),
        copied(1, empty=False, configs={"compression.type": "gzip"}),
        terms=RuleTerms(adopt=True),
    )

    assert [each.edits for each in result.alter] == [
        (ConfigEdit("compression.type", "gzip", "producer"),)
    ]
    assert len(result.publish) == 1


def test_what_makes_an_adopted_copy_exact_stays_wanted_when_the_catalog_has_the_topic() -> None:
    there = copied(1, empty=False, configs={"compression.type": "gzip"})
    terms = RuleTerms(adopt=True)
    first = planned(orders(1), there, terms=terms)

    again = planned(orders(1), there, terms=terms, entries=first.publish)

    assert len(first.publish) == 1
    assert again.alter == first.alter != ()
    assert again.publish == ()


def test_unread_configs_are_made_exact_once_and_again_only_while_that_is_refused() -> None:
    hidden = replace(copied(1), configs={}, overrides=None)
    gzip = {"compression.type": "gzip"}
    first = planned(orders(1), hidden, scene=Scene(defaults=gzip))

    def again(scene: Scene) -> Plan:
        return planned(orders(1), hidden, entries=first.publish, scene=scene)

    refused = Scene(defaults=gzip, unaltered=frozenset({"east.orders"}))
    assert first.alter != ()
    assert again(Scene(defaults=gzip)).alter == ()
    assert again(refused).alter == first.alter


def test_a_topic_of_the_catalog_is_not_foreign_because_it_has_records() -> None:
    assert planned(orders(), copied(empty=False), entries=published()).held == ()


def test_bigger_batches_at_the_source_raise_the_limit_of_the_target() -> None:
    result = planned(orders(1, max_message_bytes=5_000_000), copied(1), entries=published(1))

    assert [each.edits for each in result.alter] == [
        (ConfigEdit("max.message.bytes", "1048588", "5000000"),)
    ]


def test_what_a_target_takes_that_nobody_may_read_is_asked_for_once_and_is_for_it_to_refuse() -> (
    None
):
    large = orders(1, max_message_bytes=5_000_000)
    hidden = replace(copied(1), configs={}, overrides=None)
    first = planned(large, hidden, scene=Scene(defaults={"compression.type": "gzip"}))
    again = planned(large, hidden, entries=first.publish)

    assert ("max.message.bytes", "5000000") in [
        (edit.name, edit.new) for each in first.alter for edit in each.edits
    ]
    assert again.alter == ()
    assert [each.target_max_batch_bytes for each in first.publish] == [5_000_000]


def test_a_vanished_source_topic_is_told_and_its_entries_are_kept() -> None:
    result = planned(None, copied(), entries=published())

    assert held_reasons(*result.held) == [("orders", Reason.SOURCE_GONE)]
    assert result.pending == 0


def test_a_source_topic_that_we_may_not_see_changes_nothing() -> None:
    result = planned(None, copied(), entries=published(), scene=Scene(unreadable=("orders",)))

    assert (result.pending, result.held) == (0, ())


def test_a_topic_that_is_not_confirmed_yet_changes_nothing() -> None:
    result = planned(
        orders(), copied(), entries=published(), scene=Scene(claimed=False, waiting=("orders",))
    )

    assert (result.pending, result.held) == (0, ())


def test_a_topic_that_no_rule_wants_any_more_is_marked_removed() -> None:
    entries = published(1)

    result = planned(orders(1), copied(1), entries=entries, scene=UNCLAIMED)

    assert result.publish == (replace(entries[0], state=CatalogState.REMOVED),)


def test_a_removed_topic_is_removed_once() -> None:
    removed = tuple(replace(entry, state=CatalogState.REMOVED) for entry in published(1))

    assert planned(orders(1), copied(1), entries=removed, scene=UNCLAIMED).pending == 0
    assert planned(None, None, entries=removed).held == ()


def test_a_topic_that_is_wanted_again_goes_on_in_its_slot() -> None:
    entries = published(1)
    removed = tuple(replace(entry, state=CatalogState.REMOVED) for entry in entries)

    assert planned(orders(1), copied(1), entries=removed).publish == entries


def test_a_recreated_source_topic_stops_under_fail() -> None:
    result = planned(orders(topic_id=OTHER_ID), copied(), entries=published())

    assert held_reasons(*result.held) == [("orders", Reason.SOURCE_RECREATED)]
    assert result.pending == 0


def test_a_recreated_source_topic_is_a_new_incarnation_in_the_same_slot_otherwise() -> None:
    terms = RuleTerms(on_source_loss="record-gap", start="latest")
    old = published(2, terms)

    result = planned(orders(3, topic_id=OTHER_ID), copied(3, empty=False), entries=old, terms=terms)

    assert [
        (each.identity.source_topic_id, each.identity.incarnation, each.slot, each.start)
        for each in result.publish[2:]
    ] == [(OTHER_ID, 1, 0, "earliest"), (OTHER_ID, 1, 1, "earliest"), (OTHER_ID, 0, 0, "earliest")]
    # the old ones first: no partition may be copied under two incarnations
    assert result.publish[:2] == tuple(replace(entry, state=CatalogState.REMOVED) for entry in old)
    assert [each.loss for each in result.publish[2:]] == [
        CatalogLoss(cause="source-recreated"),
        CatalogLoss(cause="source-recreated"),
        None,
    ]


def test_a_recreated_source_topic_with_fewer_partitions_leaves_none_of_the_old_ones() -> None:
    terms = RuleTerms(on_source_loss="record-gap")
    old = published(2, terms)

    result = planned(orders(1, topic_id=OTHER_ID), copied(2, empty=False), entries=old, terms=terms)

    assert [
        (each.identity.partition, each.identity.incarnation, each.state) for each in result.publish
    ] == [(0, 0, "removed"), (1, 0, "removed"), (0, 1, "active")]


def test_a_worker_gets_the_incarnation_that_it_asks_for_and_its_neighbour_stays() -> None:
    old = published(2)
    anew = {old[1].identity: asked_anew(old[1], "offset:40")}

    result = planned(orders(2), copied(2, empty=False), entries=old, scene=Scene(anew=anew))

    identity = replace(old[1].identity, incarnation=1)
    loss = CatalogLoss(
        cause="source-truncated", first=40, end=60, records=20, request="two", detail="why"
    )
    assert result.publish == (
        replace(old[1], state=CatalogState.REMOVED),
        replace(old[1], identity=identity, start="offset:40", loss=loss),
    )


def test_a_request_that_was_met_changes_nothing_and_its_loss_stays_told() -> None:
    old = published(2)
    scene = Scene(anew={old[1].identity: asked_anew(old[1], "offset:40")})
    new = planned(orders(2), copied(2, empty=False), entries=old, scene=scene).publish

    again = planned(orders(2), copied(2, empty=False), entries=(*old, *new), scene=scene)

    assert again.pending == 0


def test_one_partition_of_a_recreated_target_begins_anew_and_the_others_wait_for_a_word() -> None:
    there = copied(2, topic_id=OTHER_ID, empty=False)
    scene, old, new = first_of_two(there)

    again = planned(orders(2), there, entries=(*old, *new), scene=scene)

    assert [
        (each.identity.partition, each.identity.target_topic_id, each.state) for each in new
    ] == [(0, TARGET_ID, "removed"), (0, OTHER_ID, "active")]
    assert again.pending == 0


def test_a_new_incarnation_is_stable_once_it_is_published() -> None:
    terms = RuleTerms(on_source_loss="record-gap")
    old = published(1, terms)
    new = planned(orders(1, topic_id=OTHER_ID), copied(1), entries=old, terms=terms).publish

    again = planned(orders(1, topic_id=OTHER_ID), copied(1), entries=(*old, *new), terms=terms)

    assert again.pending == 0


def test_a_recreated_or_deleted_target_topic_stops() -> None:
    recreated = planned(orders(), copied(topic_id=OTHER_ID), entries=published())
    deleted = planned(orders(), None, entries=published())

    assert held_reasons(*recreated.held) == [("orders", Reason.TARGET_RECREATED)]
    assert held_reasons(*deleted.held) == [("orders", Reason.TARGET_GONE)]
    assert recreated.pending == deleted.pending == 0


def test_origins_are_the_source_and_then_where_the_topic_itself_came_from() -> None:
    north = ClusterId("NORTH-ID")

    (entry,) = planned(orders(1), copied(1), scene=Scene(origins=(north,))).publish

    assert entry.origins == (EAST, north)


def test_a_new_incarnation_keeps_a_slot_that_load_would_not_choose() -> None:
    terms = RuleTerms(on_source_loss="record-gap")
    old = tuple(replace(entry, slot=SlotNumber(1)) for entry in published(2, terms))

    result = planned(orders(2, topic_id=OTHER_ID), copied(2), entries=old, terms=terms)

    assert [each.slot for each in result.publish[2:]] == [1, 1]


def test_of_several_incarnations_of_the_same_topics_the_latest_counts() -> None:
    (first,) = published(1)
    identity = replace(first.identity, incarnation=1)
    latest = replace(first, identity=identity, source_retention_ms=None)

    result = planned(orders(1), copied(1), entries=(latest, first))

    assert [(each.identity.incarnation, each.state) for each in result.publish] == [
        (0, "removed"),
        (1, "active"),
    ]


def test_a_new_target_topic_that_does_not_answer_yet_waits_and_says_so() -> None:
    result = planned(orders(), copied(empty=None))

    (held,) = result.held
    assert (held.reason, held.reason.may_pass) == (Reason.TARGET_UNREAD, True)
    assert "no leader" in held.detail
