"""The made traffic holds every kind of record that a copy may spoil, the same for one seed."""

from __future__ import annotations

import pytest

from tests.load.recipes import Recipe, Topic, recipes, record


@pytest.fixture(scope="module")
def pool() -> list[Recipe]:
    topics = [Topic("orders", 3), Topic("table", 1, compacted=True)]
    return recipes(topics, seed="1", count=8192)


def test_one_seed_makes_one_pool_and_another_seed_another() -> None:
    topics = [Topic("orders", 3)]
    one = recipes(topics, seed="7", count=50)
    assert one == recipes(topics, seed="7", count=50)
    assert one != recipes(topics, seed="8", count=50)


def test_every_partition_gets_its_share(pool: list[Recipe]) -> None:
    places = [(recipe.topic, recipe.partition) for recipe in pool]
    assert {place: places.count(place) for place in set(places)} == {
        ("orders", 0): 2048,
        ("orders", 1): 2048,
        ("orders", 2): 2048,
        ("table", 0): 2048,
    }


def test_records_for_one_partition_come_in_a_row_when_asked() -> None:
    sticky = recipes([Topic("orders", 3)], seed="1", count=12, sticky=4)
    assert [recipe.partition for recipe in sticky] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_keys_values_headers_and_timestamps_of_every_kind_are_made(pool: list[Recipe]) -> None:
    keys = {recipe.key if not recipe.key else b"key" for recipe in pool}
    headers = {name for recipe in pool for name, _ in recipe.headers or ()}
    header_values = {value for recipe in pool for _, value in recipe.headers or ()}
    assert keys == {None, b"", b"key"}
    assert {recipe.has_value for recipe in pool} == {True, False}
    assert {None, b""} <= header_values
    assert {"", "twice", "utf-8: ü€😀"} <= headers
    assert min(recipe.timestamp_shift_ms for recipe in pool) < -43_200_000
    assert 0 < max(recipe.timestamp_shift_ms for recipe in pool) <= 1_800_000


def test_sizes_run_from_empty_to_big(pool: list[Recipe]) -> None:
    sizes = [len(recipe.body) for recipe in pool]
    assert min(sizes) == 0
    assert max(sizes) >= 50_000


def test_a_compacted_topic_has_no_record_without_a_key(pool: list[Recipe]) -> None:
    assert all(recipe.key for recipe in pool if recipe.topic == "table")


def test_two_records_of_one_recipe_differ() -> None:
    recipe = Recipe("t", 0, b"k", True, b"body", None, 0)
    one, other = record(recipe, 1, 1000), record(recipe, 2, 1000)
    assert (one.value, other.value) == (b"000000000001|body", b"000000000002|body")
    tombstone = record(recipe._replace(has_value=False), 3, 1000)
    assert (tombstone.key, tombstone.value) == (b"000000000003|k", None)


def test_only_shifted_timestamps_are_set() -> None:
    recipe = Recipe("t", 0, b"k", True, b"", None, 0)
    assert record(recipe, 1, 1000).timestamp_ms == 0
    assert record(recipe._replace(timestamp_shift_ms=-5), 1, 1000).timestamp_ms == 995


@pytest.mark.parametrize("text", ["orders", "orders:x", "orders:0", ":3", "orders:3:delete"])
def test_a_topic_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME:PARTITIONS"):
        Topic.parse(text)


def test_topics_are_read_from_the_command_line() -> None:
    assert Topic.parse("orders:8") == Topic("orders", 8)
    assert Topic.parse("table:4:compact") == Topic("table", 4, compacted=True)
