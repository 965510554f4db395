"""Topics of a real source get their copies and catalog entries, in seconds and once."""

from __future__ import annotations

from mirrorfleet.kafka.admin import delete_topics
from mirrorfleet.records.catalog import CatalogConfig, CatalogLink, decode
from mirrorfleet.records.topics import ControlKind, control_topic
from services.local.region import Region
from tests.faultkit.waiting import until
from tests.integration.sync.fleet import (
    PROMISED_S,
    Hand,
    a_link,
    an_estate,
    fresh,
    syncing,
)

FOREVER = "9223372036854775807"


async def test_a_new_topic_is_created_on_the_target_and_in_the_catalog_within_5_s(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("new")
    async with syncing(an_estate(east, west, a_link(topic))) as sync:
        await on_east.create(topic, 3, {"cleanup.policy": "compact", "retention.ms": "3600000"})
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", number) for number in range(3)])
        entries = await on_west.entries(sync.fleet)

    source = (await on_east.cluster.metadata((topic,))).topics[topic]
    target = (await on_west.cluster.metadata((f"east.{topic}",))).topics[f"east.{topic}"]
    assert [(each.slot, each.identity.incarnation) for each in entries] == [(0, 0), (1, 0), (2, 0)]
    assert {each.identity.source_topic_id for each in entries} == {source.topic_id}
    assert {each.identity.target_topic_id for each in entries} == {target.topic_id}
    assert {each.origins for each in entries} == {(on_east.cluster.cluster_id,)}
    assert {each.source_retention_ms for each in entries} == {-1}
    assert {(each.target_compacted, each.null_keys) for each in entries} == {(True, "fail")}
    assert await on_west.config(
        f"east.{topic}",
        "compression.type",
        "cleanup.policy",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "retention.ms",
    ) == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": FOREVER,
        "message.timestamp.after.max.ms": FOREVER,
        "retention.ms": "3600000",
    }


async def test_partitions_added_at_the_source_are_added_to_the_copy(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("grows")
    await on_east.create(topic, 1)
    async with syncing(an_estate(east, west, a_link(topic, more="start: latest"))) as sync:
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", 0)])
        await on_east.grow(topic, 4)
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", number) for number in range(4)])
        entries = await on_west.entries(sync.fleet)

    assert (await on_west.topics())[f"east.{topic}"] == 4
    assert sorted((each.identity.partition, each.start) for each in entries) == [
        (0, "latest"),
        (1, "earliest"),
        (2, "earliest"),
        (3, "earliest"),
    ]


async def test_a_restart_writes_nothing(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("quiet")
    await on_east.create(topic, 2)
    estate = an_estate(east, west, a_link(topic))
    async with syncing(estate) as sync:
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", number) for number in range(2)])
        told = await on_west.tells(sync.fleet, "topic-created")
        first = await on_west.raw_catalog(sync.fleet)
    topics = await on_west.topics()

    async with syncing(estate) as sync:
        again = await on_west.raw_catalog(sync.fleet)
        told_again = await on_west.events(sync.fleet)

    kinds = [decode(key, value) for key, value in first]
    assert [each.generation for each in kinds if isinstance(each, CatalogConfig)] == [1, 2]
    assert [each.slots for each in kinds if isinstance(each, CatalogLink)] == [(0, 1, 2, 3)]
    assert len(first) == 5
    assert again == first
    assert told_again == told
    assert await on_west.topics() == topics


async def test_control_topics_have_a_partition_for_each_slot_of_every_link(
    east: Region, west: Region, on_west: Hand
) -> None:
    fleet = fresh("f")
    async with syncing(an_estate(east, west, a_link("none"), fleet=fleet)) as sync:
        pass
    wider = a_link("none").replace("slots: 4", "slots: 6")
    async with syncing(an_estate(east, west, wider, fleet=fleet)):
        pass

    wanted = {
        ControlKind.CATALOG: 1,
        ControlKind.POSITIONS: 6,
        ControlKind.SEGMENTS: 6,
        ControlKind.ARCHIVE: 6,
        ControlKind.REGISTRY: 1,
        ControlKind.COMMANDS: 1,
        ControlKind.EVENTS: 1,
        ControlKind.PROGRESS: 6,
        ControlKind.SAMPLES: 6,
        ControlKind.REPORTS: 1,
        ControlKind.SLOTS: 6,
    }

    async def same() -> bool:
        found = await on_west.topics()
        return {kind: found[control_topic(sync.fleet, kind)] for kind in ControlKind} == wanted

    await until(same, deadline_s=PROMISED_S, what=f"{wanted}")


async def test_everything_both_ways_never_goes_back(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    word = fresh("both")
    await on_east.create(f"{word}-e")
    await on_west.create(f"{word}-w")
    everything = f".*{word}-.*"
    estate = an_estate(
        east,
        west,
        a_link(everything),
        a_link(everything, source="west", target="east"),
    )
    async with syncing(estate, "west") as to_west, syncing(estate, "east") as to_east:
        await on_west.shows(to_west.fleet, [(f"{word}-e", f"east.{word}-e", 0)])
        await on_east.shows(to_east.fleet, [(f"{word}-w", f"west.{word}-w", 0)])
        await on_east.create(f"{word}-late")
        await on_west.shows(
            to_west.fleet,
            [(f"{word}-e", f"east.{word}-e", 0), (f"{word}-late", f"east.{word}-late", 0)],
        )
        await until(
            lambda: (to_west.skipped(), to_east.skipped()) == (1, 2),
            deadline_s=PROMISED_S,
            what="each side seeing the other's copies",
        )
        await on_east.shows(to_east.fleet, [(f"{word}-w", f"west.{word}-w", 0)])


async def test_a_copy_never_goes_back_under_an_alias_that_the_other_fleet_does_not_know(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    word = fresh("alias")
    await on_east.create(f"{word}-e")
    there = an_estate(east, west, a_link(f".*{word}-.*"))
    back = an_estate(
        east,
        west,
        a_link(f".*{word}-.*", source="paris", target="boston"),
        aliases=("boston", "paris"),
    )
    async with syncing(there, "west"), syncing(back, "boston") as other:
        await on_west.create(f"{word}-w")
        await on_east.shows(other.fleet, [(f"{word}-w", f"paris.{word}-w", 0)])
        await until(lambda: other.skipped() == 1, deadline_s=PROMISED_S, what="the copy seen")

    assert f"paris.east.{word}-e" not in await on_east.topics()


async def test_a_topic_that_vanishes_is_told_and_its_entry_is_kept(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("gone")
    await on_east.create(topic)
    async with syncing(an_estate(east, west, a_link(topic))) as sync:
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", 0)])
        assert await delete_topics(on_east.cluster, [topic]) == {topic: None}
        await on_west.tells(sync.fleet, "topic-created", "topic-vanished")

    assert await on_west.copies(sync.fleet) == [(topic, f"east.{topic}", 0)]
    assert f"east.{topic}" in await on_west.topics()
