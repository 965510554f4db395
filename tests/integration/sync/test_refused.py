"""What sync refuses, and that a refusal of one thing holds up nothing else."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError, RefusedError
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from services.local.region import Region
from services.sync.service import SyncService
from tests.faultkit.waiting import until
from tests.integration.sync.fleet import (
    PROMISED_S,
    Address,
    Hand,
    a_context,
    a_link,
    an_estate,
    fresh,
    syncing,
)


async def test_the_same_cluster_at_both_ends_is_refused_before_anything_is_written(
    east: Region, on_east: Hand
) -> None:
    same = Address((east.bootstrap[0].replace("127.0.0.1", "localhost"),))
    estate = an_estate(east, same, a_link(".*"))
    before = await on_east.topics()

    with pytest.raises(RefusedError, match="are the same cluster"):
        await SyncService(a_context(estate, "west")).serve(Stop(SystemClock(), 5.0))

    assert await on_east.topics() == before


def test_the_same_name_both_ways_is_refused_in_the_estate(east: Region, west: Region) -> None:
    identity = "naming: identity"
    with pytest.raises(ConfigError, match="the same name both ways is not supported yet"):
        an_estate(
            east,
            west,
            a_link("orders", more=identity),
            a_link("orders", source="west", target="east", more=identity),
        )


async def test_a_name_too_long_holds_that_topic_alone(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    word = fresh("long")
    long = word + "x" * (247 - len(word))
    await on_east.create(long)
    await on_east.create(word)
    async with syncing(an_estate(east, west, a_link(f"{word}.*"))) as sync:
        assert sync.held() == {long: "name"}
        await on_west.shows(sync.fleet, [(word, f"east.{word}", 0)])
        told = await on_west.tells(sync.fleet, "topic-refused", "topic-created")
        (event,) = [each for each in told if each.topic == long]

    assert (event.kind, event.cause) == ("topic-refused", "name")


async def test_a_target_topic_with_records_of_others_needs_adopt(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic, fleet = fresh("foreign"), fresh("f")
    await on_east.create(topic)
    await on_west.create(f"east.{topic}", 2, {"compression.type": "gzip"})
    await on_west.write(f"east.{topic}")

    async with syncing(an_estate(east, west, a_link(topic), fleet=fleet)) as sync:
        assert sync.held() == {topic: "not-empty"}
        assert await on_west.copies(sync.fleet) == []

    adopting = an_estate(east, west, a_link(topic, more="adopt: true"), fleet=fleet)
    async with syncing(adopting) as sync:
        assert sync.held() == {}
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", 0)])

    assert await on_west.config(f"east.{topic}", "compression.type") == {
        "compression.type": "producer"
    }


async def test_an_empty_target_topic_is_taken(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("empty")
    await on_east.create(topic, 2)
    await on_west.create(f"east.{topic}", 1)

    async with syncing(an_estate(east, west, a_link(topic))) as sync:
        await on_west.shows(sync.fleet, [(topic, f"east.{topic}", 0), (topic, f"east.{topic}", 1)])


async def test_the_second_claim_on_a_target_topic_is_refused_with_an_event(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    word = fresh("claim")
    await on_east.create(word)
    first, second = f"[c]{word[1:]}", f"{word[:-1]}[{word[-1]}]"
    rules = f"{{name: one, topics: ['{first}']}}, {{name: two, topics: ['{second}']}}"
    link = f"{{from: east, to: west, slots: 2, rules: [{rules}]}}"

    async with syncing(an_estate(east, west, link)) as sync:
        assert sync.held() == {word: "claimed"}
        await on_west.shows(sync.fleet, [(word, f"east.{word}", 0)])
        await on_west.tells(sync.fleet, "claim-refused", "topic-created")
        assert [each.rule for each in await on_west.entries(sync.fleet)] == ["one"]


async def test_a_topic_that_the_target_refuses_does_not_hold_up_others_and_recovers(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    word = fresh("deny")
    await on_east.create(f"{word}-a")
    await on_east.create(f"{word}-b")
    rules = (
        f"{{name: a, topics: ['{word}-a'], replication_factor: 3}},"
        f" {{name: b, topics: ['{word}-b']}}"
    )
    link = f"{{from: east, to: west, slots: 2, rules: [{rules}]}}"

    async with syncing(an_estate(east, west, link)) as sync:
        assert sync.held() == {f"{word}-a": "refused-by-target"}
        others = [(f"{word}-b", f"east.{word}-b", 0)]
        await on_west.shows(sync.fleet, others)

        await on_west.create(f"east.{word}-a")  # somebody helps
        await on_west.shows(sync.fleet, [(f"{word}-a", f"east.{word}-a", 0), *others])
        await until(lambda: sync.held() == {}, deadline_s=PROMISED_S, what="nothing held")


async def test_manual_reports_what_it_would_do_and_writes_nothing(
    east: Region, west: Region, on_east: Hand, on_west: Hand
) -> None:
    topic = fresh("manual")
    await on_east.create(topic)
    before = await on_west.topics()

    estate = an_estate(east, west, a_link(topic), sync="{apply: manual, period_s: 0.5}")
    async with syncing(estate) as sync:
        assert sync.service.reports[0].pending == 1

    assert await on_west.topics() == before


async def test_an_alias_that_means_another_cluster_now_is_refused(
    east: Region, west: Region
) -> None:
    fleet = fresh("f")
    async with syncing(an_estate(east, west, a_link("none"), fleet=fleet)):
        pass
    renamed = an_estate(
        east,
        west,
        a_link("none", source="boston"),
        aliases=("boston", "west"),
        fleet=fleet,
    )

    with pytest.RaisesGroup(
        pytest.RaisesExc(RefusedError, match="is in the catalog as 'east'"), flatten_subgroups=True
    ):
        await SyncService(a_context(renamed, "west")).serve(Stop(SystemClock(), 5.0))
