"""What a cut took of what several incarnations wrote to one target partition."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.gone import Written, gone, in_force
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.records.positions import Position
from mirrorfleet.records.segments import Run
from tests.unit.copying.making import SOURCE_TOPIC, identity
from tests.unit.offsets.making import run_of

BEFORE = UUID(int=0xC)
"""The source topic that had the name before."""
HUNDRED = [run_of(n * 10, n * 10 + 10, n * 10) for n in range(100)]


def written(*runs: Run, topic: UUID = SOURCE_TOPIC) -> Written:
    known = PartitionMap()
    for run in runs:
        known.add(run)
    return Written(topic, known)


def stands(source: int, target: int) -> Position:
    return start_position(identity(), SourceOffset(source), 1, TargetOffset(target))


def lost(position: Position, *histories: Written, kept: int) -> tuple[int, int, int]:
    first, records, others = gone(position, histories, TargetOffset(kept))
    return first, records, others


def test_a_cut_below_the_begin_of_an_incarnation_takes_of_the_one_before_as_well() -> None:
    again, before = written(run_of(900, 905, 901)), written(*HUNDRED)

    assert lost(stands(905, 906), again, before, kept=850) == (850, 55, 0)
    assert lost(stands(905, 906), again, before, kept=903) == (902, 3, 0)
    assert lost(stands(905, 906), again, before, kept=906) == (905, 0, 0)


def test_what_was_lost_before_is_not_lost_again() -> None:
    """Of incarnation 0 only [0, 900) was there when the next began, and that has nothing yet."""
    empty, before = written(), written(*HUNDRED)

    assert lost(stands(900, 900), empty, before, kept=850) == (850, 50, 0)
    assert lost(stands(1_000, 900), empty, before, kept=850) == (850, 50, 0)  # accepted, not copied


def test_what_is_copied_again_anyway_is_not_lost() -> None:
    empty, before = written(), written(*HUNDRED)

    assert lost(stands(500, 1_000), empty, before, kept=850) == (500, 0, 0)
    again = written(run_of(500, 870, 1_001))
    assert lost(stands(870, 1_371), again, before, kept=850) == (500, 370, 0)


def test_what_came_from_another_source_topic_is_told_apart() -> None:
    now, before = written(run_of(0, 5, 1_001)), written(*HUNDRED, topic=BEFORE)

    assert lost(stands(5, 1_006), now, before, kept=950) == (0, 5, 50)
    assert lost(stands(0, 1_000), written(), before, kept=950) == (0, 0, 50)


def test_of_three_incarnations_each_ends_where_the_next_begins() -> None:
    now, second, first = written(), written(run_of(90, 200, 91)), written(run_of(0, 100, 0))

    assert lost(stands(150, 151), now, second, first, kept=80) == (80, 70, 0)


@given(st.integers(0, 60), st.integers(0, 10), st.integers(0, 60), st.integers(0, 70))
def test_one_incarnation_is_counted_as_several_are(
    records: int, hole: int, kept: int, more: int
) -> None:
    runs = [run_of(0, 10, 5), run_of(10 + hole, 10 + hole + records, 15 + more)] if records else []
    position = stands(10 + hole + records if runs else 0, 15 + more + records if runs else 0)
    alone, nothing = written(*runs), written()

    by_all = gone(position, [alone, nothing], TargetOffset(kept))
    assert gone(position, [alone], TargetOffset(kept))[1:] == by_all[1:]
    if by_all.records:
        assert gone(position, [alone], TargetOffset(kept)) == by_all


def test_runs_that_a_later_incarnation_wrote_over_are_not_compared() -> None:
    again = [run_of(900, 905, 901), run_of(905, 910, 907)]
    nowhere = TargetOffset(0)

    assert in_force([again, HUNDRED[89:]], nowhere) == [*HUNDRED[89:91], *again]
    assert in_force([[], HUNDRED[89:]], TargetOffset(900)) == [HUNDRED[89]]
    assert in_force([[], HUNDRED[89:]], nowhere) == HUNDRED[89:]
    assert in_force([again, [], HUNDRED[89:]], nowhere) == [*HUNDRED[89:91], *again]
