"""A config that the target refuses holds up no other one of its topic, new or running.

As `segment.bytes` below 1 MiB on 4.x, which 3.9 takes (KIP-1030), or what a policy of the target
forbids: a copy that is not told of `retention.ms` deletes what its source keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigChange
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.plan import Alteration, Creation, Plan
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.topics import TopicSpec
from mirrorfleet.syncing import making
from mirrorfleet.syncing.changes import Done
from mirrorfleet.syncing.making import TargetChanges
from mirrorfleet.syncing.settings import SyncSettings
from tests.fakes.clock import HandClock
from tests.unit.planning.samples import LINK
from tests.unit.syncing.test_making import A, B, changes, make

SEGMENT = ConfigEdit("segment.bytes", None, "524288")
COMPACT = ConfigEdit("cleanup.policy", "delete", "compact")
LONGER = ConfigEdit("retention.ms", "1000", "-1")
FLUSH = ConfigEdit("flush.ms", None, "1000")
LEAST = {"cleanup.policy": "compact", "compression.type": "producer", "retention.ms": "-1"}
SMALL = {**LEAST, "segment.bytes": "524288"}


class Picky:
    """Refuses all configs of a topic for one name among them, as Kafka does."""

    def __init__(self) -> None:
        self.refuses = {"segment.bytes": ErrorCode.INVALID_CONFIG}
        self.there: dict[str, dict[str, str | None]] = {}
        """The configs of each topic."""
        self.requests: list[list[str]] = []
        """The names of configs in each, those of all topics."""
        self.silent_after = 100
        """So many requests are answered."""

    async def create_topics(
        self, _: Cluster, topics: Sequence[NewTopic], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        return self._answer({each.name: dict(each.configs) for each in topics})

    async def alter_configs(
        self,
        _: Cluster,
        changes: Mapping[str, Sequence[ConfigChange]],
        *,
        deadline_s: float,
    ) -> dict[str, BrokerError | None]:
        return self._answer(
            {name: {each.name: each.value for each in some} for name, some in changes.items()}
        )

    def _answer(self, wanted: Mapping[str, dict[str, str | None]]) -> dict[str, BrokerError | None]:
        if len(self.requests) == self.silent_after:
            raise DeadlineError("west: no answer.")
        self.requests.append([name for configs in wanted.values() for name in configs])
        found = {topic: self._error(configs) for topic, configs in wanted.items()}
        for topic in (topic for topic, error in found.items() if error is None):
            self.there.setdefault(topic, {}).update(wanted[topic])
        return found

    def _error(self, configs: Mapping[str, str | None]) -> BrokerError | None:
        refused = [name for name in configs if name in self.refuses]
        return BrokerError(self.refuses[refused[0]], f"{refused[0]} is bad") if refused else None


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Picky:
    found = Picky()
    monkeypatch.setattr(making, "create_topics", found.create_topics)
    monkeypatch.setattr(making, "incremental_alter_configs", found.alter_configs)
    return found


@pytest.fixture
def made() -> TargetChanges:
    return changes(HandClock(), SyncSettings())


def creating(configs: Mapping[str, str], *claims: Claim) -> Plan:
    return Plan(
        create=tuple(Creation(each, TopicSpec(each.target_topic, 3, 1, configs)) for each in claims)
    )


def altering(*edits: ConfigEdit) -> Plan:
    return Plan(alter=(Alteration(A, edits),))


def details(done: Sequence[Done]) -> list[str]:
    return [each.detail for each in done]


async def until_silent(made: TargetChanges, step: Plan) -> list[Done]:
    """What is told before the target does not answer any more."""
    told: list[Done] = []

    async def all_of_it() -> None:
        async for some in made.make(LINK, step):
            told.extend(some)

    with pytest.raises(DeadlineError):
        await all_of_it()
    return told


async def test_what_a_running_copy_keeps_follows_though_the_target_refuses_another_config(
    made: TargetChanges, picky: Picky
) -> None:
    done = await make(made, altering(SEGMENT, FLUSH, COMPACT, LONGER))

    assert picky.there == {
        "east.a": {"cleanup.policy": "compact", "retention.ms": "-1", "flush.ms": "1000"}
    }
    assert picky.requests[1] == ["cleanup.policy"]  # before all that may be refused
    assert details(done) == [f"east.a: {each}" for each in (COMPACT, LONGER, FLUSH)]
    text = f"{SEGMENT}: segment.bytes is bad: INVALID_CONFIG (40)"
    assert made.held(LINK) == (Held("a", Reason.CONFIG_REFUSED, text),)


async def test_what_is_refused_alone_is_asked_for_once_and_told_in_the_same_words(
    made: TargetChanges, picky: Picky
) -> None:
    await make(made, altering(SEGMENT, LONGER))
    told = made.held(LINK)

    await make(made, altering(SEGMENT))

    assert picky.requests[3:] == [["segment.bytes"]]
    assert made.held(LINK) == told


async def test_what_is_refused_only_together_is_made_and_not_held(
    made: TargetChanges, picky: Picky, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def one_at_a_time(
        _: Cluster, wanted: Mapping[str, Sequence[ConfigChange]], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        error = BrokerError(ErrorCode.POLICY_VIOLATION, "one at a time")
        return {name: error if len(some) > 1 else None for name, some in wanted.items()}

    monkeypatch.setattr(making, "incremental_alter_configs", one_at_a_time)
    done = await make(made, altering(FLUSH, LONGER))

    assert details(done) == [f"east.a: {LONGER}", f"east.a: {FLUSH}"]
    assert made.held(LINK) == ()


async def test_parts_of_many_topics_share_their_requests(made: TargetChanges, picky: Picky) -> None:
    edits = (SEGMENT, LONGER)
    await make(made, Plan(alter=(Alteration(A, edits), Alteration(B, edits))))

    assert picky.requests == [
        ["segment.bytes", "retention.ms"] * 2,
        ["retention.ms"] * 2,
        ["segment.bytes"] * 2,
    ]


async def test_parts_that_were_made_before_the_target_fell_silent_are_told(
    made: TargetChanges, picky: Picky
) -> None:
    picky.silent_after = 2

    told = await until_silent(made, altering(SEGMENT, LONGER))

    assert details(told) == [f"east.a: {LONGER}"]
    assert [each.topic for each in made.held(LINK)] == ["a"]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION])
async def test_a_topic_whose_configs_are_refused_is_made_with_what_a_copy_may_not_be_without(
    made: TargetChanges, picky: Picky, code: ErrorCode
) -> None:
    """With the default `cleanup.policy` or `retention.ms` it would delete what its source keeps."""
    picky.refuses = {"segment.bytes": code}

    done = await make(made, creating(SMALL, A))

    assert picky.there == {"east.a": LEAST}
    assert made.held(LINK) == ()
    (detail,) = details(done)
    assert detail == (
        "east.a with 3 partitions, replication factor 1, without segment.bytes for now:"
        f" segment.bytes is bad: {code.name} ({int(code)})"
    )


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.ms", "compression.type"])
async def test_no_topic_is_made_without_what_decides_what_its_copy_is_and_keeps(
    made: TargetChanges, picky: Picky, name: str
) -> None:
    picky.refuses[name] = ErrorCode.POLICY_VIOLATION

    assert await make(made, creating(SMALL, A)) == []

    assert picky.there == {}
    text = f"{name} is bad: POLICY_VIOLATION (44)"
    assert made.held(LINK) == (Held("a", Reason.REFUSED, text),)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        (SMALL, ErrorCode.INVALID_REPLICATION_FACTOR),
        (SMALL, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (LEAST, ErrorCode.INVALID_CONFIG),
    ],
)
async def test_a_topic_that_is_not_refused_for_configs_that_may_be_left_out_is_asked_for_once(
    made: TargetChanges, picky: Picky, configs: dict[str, str], code: ErrorCode
) -> None:
    picky.refuses = {"cleanup.policy": code}

    await make(made, creating(configs, A))

    assert len(picky.requests) == 1
    assert [each.reason for each in made.held(LINK)] == [Reason.REFUSED]


async def test_a_topic_that_is_made_whole_is_told_before_the_target_falls_silent(
    made: TargetChanges, picky: Picky
) -> None:
    picky.silent_after = 1
    step = Plan(create=(*creating(SMALL, A).create, *creating(LEAST, B).create))

    told = await until_silent(made, step)

    assert details(told) == ["east.b with 3 partitions, replication factor 1"]


@pytest.mark.parametrize(
    ("code", "times"), [(ErrorCode.INVALID_CONFIG, 1), (ErrorCode.POLICY_VIOLATION, 0)]
)
async def test_a_target_that_calls_configs_of_a_new_topic_invalid_is_asked_again_what_it_knows(
    picky: Picky, code: ErrorCode, times: int
) -> None:
    doubts: list[None] = []
    picky.refuses = {"segment.bytes": code}
    doubting = changes(HandClock(), SyncSettings(), lambda: doubts.append(None))

    await make(doubting, creating(SMALL, A))

    assert len(doubts) == times
