"""What the made records look like, from a seed alone.

Pure. The pool is made once and walked in a circle, so that a record costs about a microsecond; a
running number in front of each value (or key) keeps the records apart.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

MIN_SIZE, MAX_SIZE = 100, 1000
"""Bytes of an ordinary value."""

BIG_SIZES = (50_000, 200_000, 700_000)
"""Bytes of the big values; the broker's default limit is 1 MiB a batch."""

DAY_MS = 86_400_000
HALF_HOUR_MS = 1_800_000
"""Brokers refuse records dated more than an hour ahead (message.timestamp.after.max.ms)."""

Headers = list[tuple[str, str | bytes | None]]
"""As librdkafka takes them; no value is a str here."""

HEADERS: tuple[Headers, ...] = (
    [("trace", b"00-4bf92f35-01")],
    [("empty", b"")],
    [("null", None)],
    [("", b"a header without a name")],
    [("twice", b"1"), ("twice", b"2"), ("twice", b"1")],
    [("b", b"2"), ("a", b"1"), ("null", None), ("empty", b"")],
    [("utf-8: ü€😀", bytes(range(256)))],
    [(f"h{n}", b"v" * n) for n in range(10)],
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to write to. Records of a compacted one always have a key."""

    name: str
    partitions: int
    compacted: bool = False

    @classmethod
    def parse(cls, text: str) -> Topic:
        """Read `orders:8` or `table:4:compact`."""
        name, _, rest = text.partition(":")
        count, _, policy = rest.partition(":")
        if not name or not count.isdecimal() or int(count) < 1 or policy not in {"", "compact"}:
            raise ValueError(f"a topic is NAME:PARTITIONS[:compact], this is {text!r}")
        return cls(name, int(count), policy == "compact")


class Recipe(NamedTuple):
    """A record to be: `timestamp_shift_ms` 0 means the moment of making."""

    topic: str
    partition: int
    key: bytes | None
    has_value: bool
    body: bytes
    headers: Headers | None
    timestamp_shift_ms: int


class Record(NamedTuple):
    """A record to produce; `timestamp_ms` 0 lets librdkafka take the time."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp_ms: int


def recipes(topics: list[Topic], *, seed: str, count: int, sticky: int = 1) -> list[Recipe]:
    """Make a pool of `count` recipes over all partitions of `topics`, `sticky` for each in turn."""
    dice = random.Random(seed)
    block = _block(dice)
    places = [(topic, partition) for topic in topics for partition in range(topic.partitions)]
    return [_recipe(dice, block, *places[n // sticky % len(places)]) for n in range(count)]


def record(recipe: Recipe, number: int, now_ms: int) -> Record:
    """Make the record of a recipe that no other record of the run is equal to."""
    stamp = b"%012d|" % number
    value = stamp + recipe.body if recipe.has_value else None
    key = recipe.key
    if value is None and key is not None:
        key = stamp + key
    shift = recipe.timestamp_shift_ms
    return Record(
        recipe.topic, recipe.partition, key, value, recipe.headers, now_ms + shift if shift else 0
    )


def _block(dice: random.Random) -> bytes:
    """A megabyte that codecs shrink to about a half: random words in random order."""
    words = [dice.randbytes(dice.randint(3, 12)) for _ in range(2000)]
    parts: list[bytes] = []
    size = 0
    while size < 1 << 20:
        parts.append(dice.choice(words))
        size += len(parts[-1])
    return b"".join(parts)


def _recipe(dice: random.Random, block: bytes, topic: Topic, partition: int) -> Recipe:
    big = dice.random() < 0.0005
    size = dice.choice(BIG_SIZES) if big else dice.randint(MIN_SIZE, MAX_SIZE)
    at = dice.randrange(len(block) - size)
    kind = dice.random()
    key: bytes | None = b"key-%d" % dice.randrange(1000)
    if kind < 0.2 and not topic.compacted:
        key = None
    elif kind < 0.25 and not topic.compacted:
        key = b""
    value_kind = dice.random()
    return Recipe(
        topic=topic.name,
        partition=partition,
        key=key,
        has_value=value_kind >= 0.03,
        body=block[at : at + size] if value_kind >= 0.06 else b"",
        headers=dice.choice(HEADERS) if dice.random() < 0.3 else None,
        timestamp_shift_ms=dice.randint(-DAY_MS, HALF_HOUR_MS) if dice.random() < 0.02 else 0,
    )
