"""When the source is away the target still says where its groups go on, and as of when."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.core.ids import FleetName, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.mapping import asking, last_checkpoints
from mirrorfleet.mapping.asking import answering
from mirrorfleet.mapping.group_rows import GROUP_COLUMNS
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records import checkpoint
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.wire.records import NO_TIME, Record
from tests.unit.mapping.targets import Target, deleted
from tests.unit.mapping.test_asking import FORMER, catalog_of
from tests.unit.records.making import LINK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from mirrorfleet.core.ids import Link
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.mapping.catalog import CatalogView

FLEET = FleetName("west")
RULE = FlowRule("all", NameFilter((".*",)), NameFilter(("g.*",)), Naming.PREFIX)
FLOW = Flow(LINK, (RULE,), NameFilter(()))
COPY = TopicPartition("east.orders", 0)
AWAY = DeadlineError("east does not answer.")


def point(group: str, source: int, target: int, at: TopicPartition = COPY) -> Record:
    made = Checkpoint(group, at, SourceOffset(source), TargetOffset(target))
    return Record(0, 1_700_000_000_000 + source, *checkpoint.encode(made))


POINTS = (
    point("g", 3, 4),
    point("other", 1, 1),
    point("g", 5, 6),
    point("g", 9, 9, TopicPartition("gone", 0)),
    point("g-refused", 2, 2),
)


class Lost:
    """A link whose source raises when it is opened, and a target that has checkpoints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: MirrorfleetError) -> None:
        self.error = error
        self.target = Target()
        self.rows: list[dict[str, object]] = []
        self.start: ListedOffset | MirrorfleetError = ListedOffset(0, -1, 0)
        """Of the target's log."""
        self.asked: set[TopicPartition] = set()

        async def read_catalog(*_: object) -> CatalogView:
            return catalog_of(LINK)

        async def read_control(
            _: object, name: str, take: Callable[[Record], None], **__: object
        ) -> bool:
            assert name == "east.checkpoints.internal"
            for record in POINTS:
                take(record)
            return True

        async def list_groups(*_: object, **__: object) -> dict[str, ListedGroup]:
            return {"g": ListedGroup("g", GroupState.STABLE, 1)}

        async def fetch_offsets(_: object, names: list[str]) -> dict[str, object]:
            refused = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no")
            known: GroupOffsets = {COPY: GroupOffset(7)}
            return {name: refused if name == "g-refused" else known for name in names}

        async def list_offsets(
            _: object, wanted: Iterable[TopicPartition], *, deadline_s: float
        ) -> dict[TopicPartition, object]:
            self.asked |= set(wanted)
            if isinstance(self.start, DeadlineError):
                raise self.start
            return dict.fromkeys(wanted, self.start)

        for fake in (read_catalog, read_control, list_groups, fetch_offsets, list_offsets):
            monkeypatch.setattr(last_checkpoints, fake.__name__, fake)

    def source(self) -> AbstractAsyncContextManager[Cluster]:
        raise self.error

    async def ask(self, only: str | None = None) -> list[dict[str, object]]:
        target = self.target.cluster()
        async with answering(self.source) as source:
            return await asking.ask_groups(source, target, FLEET, FLOW, SystemClock(), only=only)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(AWAY, "east does not answer", id="away"),
        pytest.param(ConfigError("no secret."), "east was not asked: no secret", id="no secrets"),
        pytest.param(
            BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "east: ListGroups"),
            "east does not tell its groups: COORDINATOR_LOAD_IN_PROGRESS",
            id="loads them",
        ),
    ],
)
async def test_the_last_checkpoint_of_each_group_is_told_with_its_time(
    error: MirrorfleetError, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row, refused) = await Lost(monkeypatch, error).ask()

    assert row.keys() == {*GROUP_COLUMNS, "target_topic"}
    assert row == {
        "group": "g",
        "topic": "orders",
        "partition": 0,
        "source_offset": 5,
        "target_topic": "east.orders",
        "translated": 6,
        "found": "checkpoint",
        "target_offset": 7,
        "source_state": "Unknown",
        "target_state": "Stable",
        "refused": None,
        "unchecked": f"{why}; as of 2023-11-14 22:13:20 UTC",
    }
    assert (refused["group"], refused["target_state"]) == ("g-refused", "Dead")
    assert refused["refused"] == "west: GROUP_AUTHORIZATION_FAILED"


REFUSED = AuthenticationError("h:1: SASL PLAIN as u failed: no such user.", hint="Check it.")
REFUSED_WORDS = "login refused at east: h:1: SASL PLAIN as u failed: no such user"


async def test_a_source_that_refuses_the_login_keeps_nobody_from_what_the_target_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (row, _) = await Lost(monkeypatch, REFUSED).ask()

    assert (row["group"], row["translated"], row["refused"]) == ("g", 6, None)
    assert row["unchecked"] == f"{REFUSED_WORDS}; as of 2023-11-14 22:13:20 UTC"
    with pytest.raises(RefusedError, match="group 'gone' has no checkpoint") as gone:
        await Lost(monkeypatch, REFUSED).ask("gone")
    assert gone.value.hint == f"{REFUSED_WORDS}, so only these are known."


@pytest.mark.parametrize("error", [AWAY, REFUSED], ids=["away", "refused"])
async def test_a_source_that_is_not_asked_is_the_answer_where_nobody_has_a_checkpoint(
    error: MirrorfleetError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.POINTS", [])

    with pytest.raises(type(error)):
        await Lost(monkeypatch, error).ask()


async def test_of_a_link_that_takes_no_groups_it_does_not_matter_that_the_source_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none = Flow(LINK, (replace(RULE, groups=NameFilter(())),), NameFilter(()))
    monkeypatch.setattr(f"{__name__}.FLOW", none)

    assert await Lost(monkeypatch, AWAY).ask() == []


async def test_a_checkpoint_that_was_written_without_a_time_is_of_no_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.POINTS", [point("g", 5, 6)._replace(timestamp=NO_TIME)])

    (row,) = await Lost(monkeypatch, AWAY).ask()

    assert row["unchecked"] == "east does not answer; nobody knows as of when"


async def test_as_of_when_is_since_when_the_source_is_known_to_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is written while it is away has no time, and needs none while the first one is there."""
    later = point("g", 5, 8)._replace(timestamp=NO_TIME)
    monkeypatch.setattr(f"{__name__}.POINTS", [point("g", 3, 4), point("g", 5, 6), later])

    (row,) = await Lost(monkeypatch, AWAY).ask()

    assert (row["source_offset"], row["translated"]) == (5, 8)
    assert row["unchecked"] == "east does not answer; as of 2023-11-14 22:13:20 UTC"


async def test_a_place_below_where_the_targets_log_begins_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer would go from there to wherever its reset policy says."""
    lost = Lost(monkeypatch, AWAY)
    lost.start = ListedOffset(7, -1, 0)
    (at_begin, not_told) = await lost.ask()
    lost.start = ListedOffset(8, -1, 0)

    (below, _) = await lost.ask()

    said = "west's log begins at {}: what was before is not there any more"
    assert at_begin["unchecked"] == "east does not answer; as of 2023-11-14 22:13:20 UTC"
    assert below["unchecked"] == f"{at_begin['unchecked']}; {said.format(8)}"
    assert str(not_told["unchecked"]).endswith(said.format(7))
    assert lost.asked == {COPY}


@pytest.mark.parametrize(
    "error", [AWAY, BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "west")], ids=["all", "one"]
)
async def test_a_target_that_does_not_say_where_its_log_begins_says_all_else(
    error: MirrorfleetError, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Lost(monkeypatch, AWAY)
    lost.start = error

    (row, _) = await lost.ask()

    assert (row["translated"], row["target_offset"]) == (6, 7)
    assert str(row["unchecked"]).endswith("UTC; west did not say where its log begins")


async def test_a_copy_that_was_deleted_has_no_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost(monkeypatch, AWAY)
    lost.target = deleted()

    (row, _) = await lost.ask()

    assert (row["translated"], row["found"], lost.asked) == (None, None, set())
    assert "was deleted" in str(row["refused"])


async def test_a_group_without_a_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="group 'gone' has no checkpoint"):
        await Lost(monkeypatch, AWAY).ask("gone")


@FORMER
async def test_of_a_link_that_the_catalog_has_under_another_name_no_checkpoint_is_looked_for(
    known: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_catalog(*_: object) -> CatalogView:
        return catalog_of(known)

    lost = Lost(monkeypatch, AWAY)
    monkeypatch.setattr(last_checkpoints, "read_catalog", read_catalog)

    with pytest.raises(RefusedError, match="fleet west has no link east->west"):
        await lost.ask()


async def test_a_source_that_refuses_us_is_an_error_and_no_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RefusedError, match="not you"):
        await Lost(monkeypatch, RefusedError("not you.")).ask()


async def test_a_source_that_answers_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        yield cast("Cluster", "east")

    async def ask_groups(*args: object, **more: object) -> list[dict[str, object]]:
        asked.append((args[:2], more))
        return []

    monkeypatch.setattr(asking, "ask_groups", ask_groups)
    target = cast("Cluster", "west")
    async with answering(opened) as source:
        await asking.ask_groups(source, target, FLEET, FLOW, SystemClock(), only="g")

    assert asked == [(("east", "west"), {"only": "g"})]


def half_away(monkeypatch: pytest.MonkeyPatch, request: str, error: MirrorfleetError) -> Lost:
    """A source that can be opened, and does not answer one request about its groups."""
    lost = Lost(monkeypatch, AWAY)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Cluster]:
        yield cast("Cluster", SimpleNamespace(name="east"))

    async def list_groups(_: object) -> dict[str, ListedGroup]:
        return {"g": ListedGroup("g", GroupState.STABLE, 1)}

    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(lost, "source", opened)
    monkeypatch.setattr(asking, "list_groups", list_groups)
    monkeypatch.setattr(asking, request, fails)
    return lost


@pytest.mark.parametrize("request_name", ["list_groups", "fetch_offsets"])
async def test_a_source_of_which_one_broker_refuses_the_login_is_as_one_that_refuses_it(
    request_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row, _) = await half_away(monkeypatch, request_name, REFUSED).ask()

    assert (row["group"], row["translated"], row["found"]) == ("g", 6, "checkpoint")
    assert row["unchecked"] == f"{REFUSED_WORDS}; as of 2023-11-14 22:13:20 UTC"


@pytest.mark.parametrize("request_name", ["list_groups", "fetch_offsets"])
async def test_a_source_of_which_some_brokers_are_left_is_as_one_that_is_away(
    request_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row, _) = await half_away(monkeypatch, request_name, AWAY).ask()

    assert (row["group"], row["translated"], row["found"]) == ("g", 6, "checkpoint")
    assert row["unchecked"] == "east does not answer; as of 2023-11-14 22:13:20 UTC"


async def test_a_source_that_refuses_to_list_its_groups_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "east: ListGroups")

    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        await half_away(monkeypatch, "list_groups", refused).ask()


async def test_a_target_that_is_away_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fetch_offsets(*_: object) -> dict[str, object]:
        return {"g": {}}

    lost = half_away(monkeypatch, "read_catalog", DeadlineError("west does not answer."))
    monkeypatch.setattr(asking, "fetch_offsets", fetch_offsets)

    with pytest.raises(DeadlineError, match="west"):
        await lost.ask()
