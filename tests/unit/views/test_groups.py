"""Groups on both sides, and offsets translated, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import PartitionIdentity, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.incarnations import FROM_THE_START
from mirrorfleet.views.groups import (
    GroupFacts,
    group_page,
    group_row,
    groups_page,
    translation,
)
from mirrorfleet.views.pages import Wanted
from tests.unit.offsets.making import run_of
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry

A, B = entry(0), entry(1)
AT_A, AT_B = TopicPartition("orders", 0), TopicPartition("orders", 1)
THERE_A, THERE_B = TopicPartition("east.orders", 0), TopicPartition("east.orders", 1)
ELSEWHERE = TopicPartition("local", 0)
HELD = ", or it stands at the source in what that has lost"
BACK_IN_1 = "it is further back on the target in 1 partition"
FLOW = Flow(
    LINK,
    (FlowRule("all", NameFilter((".*",)), NameFilter((".*",), ("hidden",)), Naming.PREFIX),),
    NameFilter(()),
)


def copies() -> Copies:
    """Source 10..20 of both partitions is target 0..10."""
    index = OffsetIndex()
    for one in (A, B):
        index.add(one.identity, [run_of(10, 20, 0)])
    return Copies([A, B], index)


def facts(here: dict[TopicPartition, int], there: dict[TopicPartition, int]) -> GroupFacts:
    return GroupFacts(
        source_states={"g": "Stable", "hidden": "Empty", "h<B>": "Empty"},
        target_states={"g": "Empty"},
        source_offsets={"g": {at: GroupOffset(offset) for at, offset in here.items()}},
        target_offsets={"g": {at: GroupOffset(offset) for at, offset in there.items()}},
        sides=dict.fromkeys((A.identity, B.identity), Sides(Seen.THERE, Seen.THERE)),
    )


@pytest.mark.parametrize(
    ("there", "verdict", "words"),
    [
        ({}, "not set", "no offset of it is set on the target"),
        ({THERE_A: 5}, "partly", "1 partition of 2 not set on the target"),
        ({THERE_A: 5, THERE_B: 7}, "in place", "it can go on over there where it stands here"),
        (
            {THERE_A: 5, THERE_B: 6},
            "behind",
            f"{BACK_IN_1}: checkpoint sets it unless its /status says why not" + HELD,
        ),
        (
            {THERE_A: 6, THERE_B: 6},
            "ahead",
            "it is further on the target in 1 partition",
        ),
    ],
)
def test_a_group_is_compared_with_its_own_translation(
    there: dict[TopicPartition, int], verdict: str, words: str
) -> None:
    row = group_row(
        "g", FLOW, facts({AT_A: 15, AT_B: 17, ELSEWHERE: 3}, there), copies(), map_words=""
    )

    assert row.model_dump() == {
        "group": "g",
        "source_state": "Stable",
        "target_state": "Empty",
        "partitions": 2,
        "verdict": verdict,
        "words": words,
    }


@pytest.mark.parametrize(
    ("start", "there", "verdict", "translated"),
    [
        (8, 8, "in place", 8),
        (8, 9, "ahead", 8),
        (8, 5, "behind", 8),
        (5, 5, "in place", 5),
        (4, 6, "ahead", 5),
    ],
)
def test_where_the_copy_begins_now_is_the_first_place_there(
    start: int, there: int, verdict: str, translated: int
) -> None:
    found = replace(facts({AT_A: 15}, {THERE_A: there}), target_starts={THERE_A: start})

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words="", now_ms=NOW)

    assert page.row is not None
    assert (page.row.verdict, page.offsets[0].translated) == (verdict, translated)
    words = page.offsets[0].words
    assert words.startswith("the copy begins at 8 now") == (start == 8)
    assert words.endswith("its reset policy says") == (there < start)


@pytest.mark.parametrize(
    ("offset", "copied", "verdict"),
    [
        (99, {}, "not copied"),
        (99, {A.identity: 98}, "not copied"),
        (99, {A.identity: 99, B.identity: 0}, "in place"),  # markers behind the last record
        (20, {}, "in place"),
    ],
)
def test_a_group_is_not_in_place_while_what_it_has_read_is_still_to_be_copied(
    offset: int, copied: dict[PartitionIdentity, int], verdict: str
) -> None:
    found = replace(facts({AT_A: offset, AT_B: 17}, {THERE_A: 10, THERE_B: 7}), copied=copied)

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words="", now_ms=NOW)

    assert page.row is not None
    assert page.row.verdict == verdict
    left = offset - max(20, copied.get(A.identity, 0))
    assert [one.uncopied for one in page.offsets] == [left, 0]
    assert (f"; {left} offsets before it are not copied yet" in page.offsets[0].words) == bool(left)


@pytest.mark.parametrize(
    ("start", "log_starts", "left_out"),
    [
        ("latest", {A.identity: 2}, 6),
        ("timestamp:1", {A.identity: 9}, 1),
        ("latest", {A.identity: -1}, 6),  # its owner has not seen it yet
        ("latest", {A.identity: 10}, 0),  # nobody has what it has not read
        (FROM_THE_START, {A.identity: 2}, 0),  # compacted away, or markers
    ],
)
def test_a_group_from_before_copying_began_is_not_in_place_while_the_source_has_what_it_missed(
    start: str, log_starts: dict[PartitionIdentity, int], left_out: int
) -> None:
    known = Copies([replace(A, start=start), B], copies()._index)
    found = replace(facts({AT_A: 4, AT_B: 17}, {THERE_A: 0, THERE_B: 7}), log_starts=log_starts)

    page = group_page("g", FLOW, found, known, Wanted(), map_words="", now_ms=NOW)

    assert page.row is not None
    partly = "copying began behind it in 1 partition: what it has not read from before that may"
    assert (page.row.verdict, page.row.words) == (
        ("partly", f"{partly} not be over there")
        if left_out
        else ("in place", "it can go on over there where it stands here")
    )
    assert [one.left_out for one in page.offsets] == [left_out, 0]


def test_a_group_that_others_put_before_our_first_copy_stays_and_is_not_said_to_be_set() -> None:
    """MM2's records lie there: who sets it to our first one by hand skips what it has not read."""
    index = OffsetIndex()
    index.add(A.identity, [run_of(10, 20, 500)])
    known = Copies([replace(A, start="latest")], index)
    found = replace(facts({AT_A: 4}, {THERE_A: 450}), log_starts={A.identity: 2})

    page = group_page("g", FLOW, found, known, Wanted(), map_words="", now_ms=NOW)

    assert page.row is not None
    assert page.row.verdict == "partly"
    assert page.offsets[0].words.startswith("it stays here, where somebody else put it, until")


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Unknown"])
def test_a_group_with_members_on_the_target_is_not_said_to_be_set(state: str) -> None:
    """Checkpoint leaves it alone: who waits for that before a move would wait for ever."""
    found = replace(
        facts({AT_A: 15, AT_B: 17}, {THERE_A: 4, THERE_B: 6}), target_states={"g": state}
    )

    row = group_row("g", FLOW, found, copies(), map_words="")

    assert (row.verdict, row.words) == (
        "behind",
        "it is further back on the target in 2 partitions, and has members there: nothing is set",
    )


@pytest.mark.parametrize("states", [{}, {"g": "Dead"}, {"g": "Empty"}])
def test_a_group_without_members_may_be_set_and_checkpoint_knows(states: dict[str, str]) -> None:
    found = replace(facts({AT_A: 15}, {THERE_A: 4}), target_states=states)

    words = group_row("g", FLOW, found, copies(), map_words="").words

    assert words == f"{BACK_IN_1}: checkpoint sets it unless its /status says why not" + HELD


def test_each_offset_says_what_it_is_over_there() -> None:
    found = facts({AT_A: 4, AT_B: 99}, {THERE_A: 2, THERE_B: 7})

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words="", now_ms=NOW)

    assert [(one.translated, one.found, one.target_offset, one.words) for one in page.offsets] == [
        (0, "before-copy", 2, "ahead by 2: a consumer would go on after these"),
        (
            10,
            "end",
            7,
            (
                "behind by 3: a consumer would read these again;"
                " 79 offsets before it are not copied yet"
            ),
        ),
    ]


def test_no_place_is_told_in_a_copy_that_was_deleted_nor_that_the_group_is_in_it() -> None:
    """The group has places in what is copied anew; by the map of before they are behind."""
    found = facts({AT_A: 15, AT_B: 17}, {THERE_A: 2, THERE_B: 7})
    gone, unsure = Sides(Seen.THERE, Seen.GONE), Sides(Seen.THERE, Seen.UNSURE)
    found = replace(found, sides={A.identity: gone, B.identity: unsure})

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words="", now_ms=NOW)

    assert [(one.translated, one.found, one.target_offset, one.words) for one in page.offsets] == [
        (
            None,
            None,
            2,
            "the copy was deleted, and what has its name now is another topic, or nothing",
        ),
        (
            7,
            "exact",
            7,
            "in place: the same record; not checked whether the target has this topic still",
        ),
    ]
    assert page.row is not None
    assert (page.row.verdict, page.row.words) == (
        "unknown",
        "the target's topic of 1 partition was deleted",
    )


def test_no_place_is_told_for_an_offset_of_a_source_topic_that_was_made_again() -> None:
    """It is one of the new topic, and the map is about the old one: the copy is not it."""
    found = facts({AT_A: 15, AT_B: 17}, {THERE_A: 5})
    gone, unsure = Sides(Seen.GONE, Seen.THERE), Sides(Seen.UNSURE, Seen.UNSURE)
    found = replace(found, sides={A.identity: gone, B.identity: unsure})

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words="", now_ms=NOW)

    deleted = "the source's topic was deleted, and what has its name now is another topic"
    unchecked = "not set on the target" + "".join(
        f"; not checked whether the {side} has this topic still" for side in ("source", "target")
    )
    assert [(one.translated, one.found, one.words) for one in page.offsets] == [
        (None, None, f"{deleted}, or nothing"),
        (7, "exact", unchecked),
    ]
    assert page.row is not None
    assert (page.row.verdict, page.row.words) == (
        "unknown",
        "the source's topic of 1 partition was deleted",
    )


def test_a_group_that_is_set_in_an_empty_copy_is_not_said_to_be_set_nowhere() -> None:
    found = facts({AT_A: 15, AT_B: 0}, {THERE_A: 5, THERE_B: 0})
    index = OffsetIndex()
    index.add(A.identity, [run_of(10, 20, 0)])
    known = Copies([A, B], index)

    page = group_page("g", FLOW, found, known, Wanted(), map_words="", now_ms=NOW)

    assert [(one.translated, one.target_offset) for one in page.offsets] == [(5, 5), (None, 0)]
    assert page.row is not None
    assert page.row.verdict == "in place"


@pytest.mark.parametrize(
    ("places", "verdict", "words"),
    [
        ({THERE_A: 5, THERE_B: 7}, "unknown", "the place of 1 partition is not known"),
        ({THERE_B: 7}, "unknown", "the place of 1 partition is not known"),
        ({THERE_A: 6, THERE_B: 7}, "ahead", "it is further on the target in 1 partition"),
        ({THERE_A: 4, THERE_B: 7}, "behind", BACK_IN_1),
        ({THERE_A: 5}, "partly", "1 partition of 2 not set on the target"),
    ],
)
def test_a_group_of_which_one_place_is_not_known_is_not_said_to_be_in_place(
    places: dict[TopicPartition, int], verdict: str, words: str
) -> None:
    """The map has nothing of partition 1, so nobody knows where 17 is over there."""
    index = OffsetIndex()
    index.add(A.identity, [run_of(10, 20, 0)])
    found = facts({AT_A: 15, AT_B: 17}, places)

    row = group_row("g", FLOW, found, Copies([A, B], index), map_words="")

    assert (row.verdict, row.words.partition(":")[0]) == (verdict, words)


@pytest.mark.parametrize(
    ("there", "verdict", "words"),
    [
        ({}, "not set", "no offset of it is set on the target"),
        ({THERE_A: 5}, "unknown", "the offset map is not known yet"),
        ({THERE_A: 5, THERE_B: 7}, "unknown", "the offset map is not known yet"),
        ({THERE_A: 6, THERE_B: 7}, "ahead", "it is further on the target in 1 partition"),
    ],
)
def test_by_a_map_that_is_not_read_whole_no_group_is_in_place(
    there: dict[TopicPartition, int], verdict: str, words: str
) -> None:
    waiting = "1 of 2 slots are still being read"
    found = facts({AT_A: 15, AT_B: 17}, there)

    page = group_page("g", FLOW, found, copies(), Wanted(), map_words=waiting, now_ms=NOW)
    listed = groups_page(FLOW, found, copies(), Wanted(), map_words=waiting, now_ms=NOW)

    assert page.row is not None
    assert (page.row.verdict, page.row.words) == (verdict, words)
    assert listed.groups[0] == page.row
    assert [one.words for one in page.offsets if "in place" in one.words] == []


def test_before_the_map_is_read_the_place_of_a_group_is_unknown_and_so_is_each_offset() -> None:
    found = facts({AT_A: 15, AT_B: 17}, {THERE_A: 5, THERE_B: 7})

    page = group_page(
        "g", FLOW, found, Copies([A, B], OffsetIndex()), Wanted(), map_words="wait", now_ms=NOW
    )

    assert page.row is not None
    assert (page.row.verdict, page.row.words) == (
        "unknown",
        "the place of 2 partitions is not known",
    )
    assert {one.words for one in page.offsets} == {"the offset map is not known yet"}


def test_no_cause_is_told_for_an_offset_ahead_that_ours_may_have_put_there() -> None:
    """Retention took target 0..5: we set 6, the log start, for a group that stands before it."""
    page = group_page(
        "g", FLOW, facts({AT_A: 12}, {THERE_A: 6}), copies(), Wanted(), map_words="", now_ms=NOW
    )

    assert page.offsets[0].words == "ahead by 4: a consumer would go on after these"
    assert page.row is not None
    assert (page.row.verdict, page.row.words) == (
        "ahead",
        "it is further on the target in 1 partition",
    )


def test_a_group_that_a_cluster_does_not_answer_for_is_unknown() -> None:
    refused = GroupFacts(source_states={"g": "Stable"}, refused={"g": "not coordinator"})

    row = group_row("g", FLOW, refused, copies(), map_words="")

    assert (row.verdict, row.words) == ("unknown", "not coordinator")
    assert row.target_state == "Dead"


def test_only_groups_that_a_rule_takes_are_listed_and_filtered_by_name() -> None:
    found = facts({}, {})

    def names(text: str) -> list[str]:
        page = groups_page(FLOW, found, copies(), Wanted(text=text), map_words="", now_ms=NOW)
        return [one.group for one in page.groups]

    assert names("") == ["g", "h<B>"]
    assert names("<b") == ["h<B>"]


def test_a_translation_is_a_sentence() -> None:
    answer = copies().to_target(AT_A, 15)
    assert answer is not None

    found = translation(answer, "east", "west", "to-target")

    assert found.words == (
        "Offset 15 of orders-0 is offset 5 of east.orders-0: the same record. The copy is known up"
        " to source offset 20."
    )
    assert (found.other_topic, found.other_offset, found.found) == ("east.orders", 5, "exact")
