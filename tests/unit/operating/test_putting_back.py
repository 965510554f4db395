"""Positions put back from an export: none that is older than its copy, and none that is there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, RefusedError
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    ProducerIdentity,
    SourceOffset,
    TopicPartition,
)
from mirrorfleet.kafka import fenced_writer
from mirrorfleet.kafka.backoff import SystemDice
from mirrorfleet.operating import positions
from mirrorfleet.operating.positions import Imported, import_positions, import_with
from mirrorfleet.records.positions import Position, Quarantine
from mirrorfleet.runtime.clock import SystemClock
from tests.unit.operating.making import at_80
from tests.unit.operating.stored import AHEAD, FLEET, IDLE, MARKED, Copy, World

if TYPE_CHECKING:
    from mirrorfleet.config.model import Estate
    from mirrorfleet.kafka.cluster import Cluster

ESTATE = """\
estate: demo
clusters: {east: {bootstrap: "h:1"}, north: {bootstrap: "h:2"}, west: {bootstrap: "h:3"}}
links:
  - {from: east, to: west, rules: [{name: orders, topics: [orders]}]}
  - {from: north, to: west, rules: [{name: bills, topics: [bills]}]}
"""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World({0: IDLE, 1: IDLE})
    asked = ("read_catalog", "read_control", "log_bounds", "list_offsets", "first_committed")
    for name in (*asked, "recall"):
        monkeypatch.setattr(positions, name, getattr(made, name))
    monkeypatch.setattr(fenced_writer, "FencedWriter", made.writer)
    return made


async def leader(_: TopicPartition) -> None:
    """Of the slot's positions; whoever writes asks for it."""


def opened(cluster: str = "east") -> Cluster:
    """Either cluster: what is asked of them is answered by the world."""
    known = SimpleNamespace(
        name="west", dice=SystemDice(), leader=leader, cluster_id=ClusterId(cluster)
    )
    return cast("Cluster", nullcontext(known))


async def put_back(
    numbers: Sequence[int],
    *others: Position,
    sources: Sequence[str] = ("east",),
    cluster: str = "east",
) -> Imported:
    wanted = [*map(at_80, numbers), *others]
    known = {ClusterAlias(source): partial(opened, cluster) for source in sources}
    async with opened() as target:
        return await import_positions(target, known, FLEET, wanted, SystemClock())


async def put_back_while_down(down: str, directory: Path) -> Imported:
    """An import with an estate of two sources, of which one is down."""
    file = directory / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")

    def open_one(_: Estate, alias: str) -> Cluster:
        if alias == down:
            raise ConnectionLostError(f"{alias}: cannot connect", hint="Check that it runs.")
        return opened()

    return await import_with(load_estate(file), "west", [at_80()], open_one)


async def test_positions_at_the_end_of_their_copies_are_put_back(world: World) -> None:
    world.copies[1] = Copy(92, (), 92)  # retention took all of it, the marker too

    assert await put_back([0, 1]) == Imported(2, 0)
    assert world.written == [at_80(0), at_80(1)]


async def test_positions_that_are_there_and_have_moved_on_are_left_as_they_are(
    world: World,
) -> None:
    world.standing(0, 81, 92)

    assert await put_back([0, 1]) == Imported(1, 1)
    assert world.written == [at_80(1)]


async def test_an_import_that_ended_halfway_says_so_and_is_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "_A_WRITE", 1)
    world.meanwhile += [lambda: None, lambda: setattr(world, "hidden", 2)]

    with pytest.raises(BrokerError) as error:
        await put_back([0, 1])

    assert "Positions written before: 1 of slot 0. The same import can be run" in error.value.hint
    world.hidden = 0
    world.standing(0, 81, 92)  # its worker went on
    assert await put_back([0, 1]) == Imported(1, 1)
    assert world.written == [at_80(0), at_80(1)]


async def test_a_copy_whose_end_has_not_moved_is_not_read_again_while_its_slot_is_ours(
    world: World,
) -> None:
    world.copies = {0: MARKED, 1: MARKED, 2: IDLE}
    assert await put_back([0, 1, 2]) == Imported(3, 0)

    assert sorted(at.partition for at in world.read) == [0, 1]  # where nothing came none is read


async def test_the_offsets_of_all_positions_are_asked_for_at_once(world: World) -> None:
    await put_back([0])
    alone, world.requests = world.requests, 0
    world.copies = dict.fromkeys(range(20), IDLE)

    await put_back(range(20))

    assert world.requests == alone


async def test_a_position_that_a_log_does_not_have_is_refused(world: World) -> None:
    world.copies = {0: Copy(0, (), 90), 1: IDLE, 2: IDLE}
    beyond = replace(at_80(2), next_source=SourceOffset(301))

    with pytest.raises(RefusedError) as refused:
        await put_back([0, 1], beyond)

    assert refused.value.message == (
        "east.orders-0 ends at 90, below 91;"
        " orders-2 of east->west ends at 300 at the source, below 301."
    )
    assert world.written == []


async def test_a_source_that_is_another_cluster_now_is_not_asked_where_its_logs_end(
    world: World,
) -> None:
    with pytest.raises(RefusedError, match="alias east means cluster other now") as refused:
        await put_back([0], cluster="other")

    assert "Nothing was written." in refused.value.hint
    assert world.written == []


async def test_what_retention_took_of_the_source_since_is_for_the_mirror_to_tell(
    world: World,
) -> None:
    world.source = Copy(200, (), 300)

    assert await put_back([0]) == Imported(1, 0)


async def test_nothing_is_written_while_its_owner_goes_on_with_the_spare_id(world: World) -> None:
    world.quarantine = Quarantine(
        owner="b", producer=ProducerIdentity(7, 1), partitions=(TopicPartition("c", 1),), time_ms=1
    )

    with pytest.raises(RefusedError, match="owner of slot 0 goes on without") as refused:
        await put_back([0])

    assert "mirrorfleet status" in refused.value.hint
    assert world.written == []


async def test_a_source_that_no_line_names_may_be_down(world: World, tmp_path: Path) -> None:
    assert await put_back_while_down("north", tmp_path) == Imported(1, 0)
    assert world.written == [at_80(0)]


async def test_a_source_whose_positions_are_all_there_may_be_down(
    world: World, tmp_path: Path
) -> None:
    world.standing(0, 81, 92)

    assert await put_back_while_down("east", tmp_path) == Imported(0, 1)


async def test_a_source_that_is_down_and_needed_says_which_lines_to_leave_out(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(ConnectionLostError, match="east: cannot connect") as error:
        await put_back_while_down("east", tmp_path)

    assert error.value.hint == (
        "Check that it runs. Nothing was written."
        " A file without the lines of east needs nothing of it."
    )
    assert world.written == []


async def test_a_position_whose_link_left_the_estate_is_refused_unless_it_is_there(
    world: World,
) -> None:
    world.standing(0, 81, 92)

    assert await put_back([0], sources=["north"]) == Imported(0, 1)
    with pytest.raises(RefusedError) as refused:
        await put_back([0, 1], sources=[])

    assert refused.value.message == "east->west is not in the estate (lines: 1)."
    assert "Put the link back into the estate, or remove its lines" in refused.value.hint
    assert world.written == []


async def test_a_position_that_is_older_than_its_copy_is_refused_and_the_way_on_told(
    world: World,
) -> None:
    world.copies[1] = AHEAD

    with pytest.raises(RefusedError) as refused:
        await put_back([0, 1])

    assert refused.value.message == (
        "orders-1 of east->west was copied on: east.orders-1 has records from 92 on, behind 91."
    )
    assert "Nothing was written. Import an export that is as new" in refused.value.hint
    assert "mirrorfleet inspect" in refused.value.hint
    assert world.written == []


async def test_an_older_export_is_refused_for_what_is_gone_though_others_have_moved_on(
    world: World,
) -> None:
    world.copies[1] = AHEAD
    world.standing(0, 81, 92)

    with pytest.raises(RefusedError, match=r"^orders-1 of east->west was copied on: "):
        await put_back([0, 1])

    assert world.written == []


async def test_what_retention_took_behind_a_position_may_have_been_copied(world: World) -> None:
    world.copies[0] = Copy(200, (), 200)

    with pytest.raises(RefusedError, match=r"east.orders-0 begins at 200: .* copied on behind 91"):
        await put_back([0])

    assert world.written == []


async def test_a_position_that_a_worker_makes_before_its_slot_is_taken_is_not_moved(
    world: World,
) -> None:
    world.meanwhile.append(lambda: world.standing(0, 120, 140))

    with pytest.raises(RefusedError, match="orders-0 of east->west stands at 120 already") as error:
        await put_back([0])

    begin = "Nothing of this was written to slot 0. Positions written before: none. "
    assert error.value.hint.startswith(begin)
    assert world.written == []


async def test_what_a_worker_commits_before_its_slot_is_taken_is_not_copied_again(
    world: World,
) -> None:
    world.meanwhile.append(lambda: world.copies.update({0: AHEAD}))

    with pytest.raises(RefusedError, match="orders-0 of east->west was copied on"):
        await put_back([0])

    assert world.written == []


async def test_a_slot_that_its_owner_takes_back_is_taken_and_looked_at_again(world: World) -> None:
    world.taken_back = 1

    assert await put_back([0]) == Imported(1, 0)
    assert world.written == [at_80(0)]


async def test_what_an_owner_did_with_the_slot_that_it_took_back_is_seen(world: World) -> None:
    world.taken_back = 1
    world.meanwhile += [lambda: None, lambda: world.standing(0, 81, 91)]

    with pytest.raises(RefusedError, match="stands at 81 already"):
        await put_back([0])

    assert world.written == []


async def test_nothing_is_written_while_positions_are_behind_an_open_transaction(
    world: World,
) -> None:
    world.hidden = 2

    with pytest.raises(BrokerError) as error:
        await put_back([0])

    assert error.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert error.value.retriable  # the writer takes the slot and looks again
    assert world.written == []
