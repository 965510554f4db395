"""The estate, a link, a topic, a partition: numbers and words, from what a fleet told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.events import Event
from mirrorfleet.records.progress import UNREACHABLE, held_up
from mirrorfleet.records.samples import FOREVER_MS, Verdict
from mirrorfleet.records.segments import Run
from mirrorfleet.views import pages
from mirrorfleet.views.models import Page, PartitionPage, Step
from mirrorfleet.views.pages import Wanted, look
from mirrorfleet.views.told import Fleet
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry, fleet, report, sample, snapshot

A, B, C = entry(0), entry(1), entry(0, topic="bills", slot=4)
BACK = Link(LINK.target, LINK.source)


def busy() -> Fleet:
    """A copies live, B stands still, nobody reports C."""
    before = snapshot(report(A), report(B), time_ms=NOW - 5_500)
    fault = "record-too-large at source offset 100: 2000 bytes"
    now = snapshot(report(A, records=145, bytes=14_500), report(B, fault=fault))
    happened = Event(
        kind="partition-faulted", time_ms=NOW - 900, writer="w", link=LINK, topic="orders",
        partition=1, detail=fault,
    )  # fmt: skip
    return fleet([A, B, C], before, now, happened)


def partition_page(of: Fleet, which: CatalogPartition, map_words: str = "") -> PartitionPage:
    seen = look(of, LINK, NOW)
    one = pages.find(seen, which.source_topic, which.identity.partition)
    assert one is not None
    return pages.partition_page(seen, one, OffsetIndex(), map_words, NOW)


def test_a_link_counts_what_is_known_and_says_what_is_not() -> None:
    found = pages.link_view(look(busy(), LINK, NOW))

    assert found.words == ("Of 3 partitions of 2 topics: 1 faulted, 1 unknown.")
    assert found.summary.model_dump() == {
        "partitions": 3,
        "topics": 2,
        "verdict": Verdict.FAULTED,
        "verdicts": {Verdict.OK: 1, Verdict.FAULTED: 1, Verdict.UNKNOWN: 1},
        "records_s": 10.0,
        "bytes_s": 1000.0,
        "lag_records": 20,
        "lag_unknown": 1,
        "time_lag_ms": None,
        "time_lag_unknown": 3,
        "eta_ms": None,
        "headroom_ms": None,
    }


def test_time_lag_and_headroom_are_those_of_the_worst_partition() -> None:
    found = fleet(
        [A, B],
        snapshot(report(A), report(B)),
        sample(A, time_lag_ms=1_000, headroom_ms=None, eta_ms=3_000),
        sample(B, time_lag_ms=90_000, headroom_ms=5_000, eta_ms=7_000, verdict=Verdict.BEHIND),
    )

    summary = pages.link_view(look(found, LINK, NOW)).summary

    assert (summary.time_lag_ms, summary.headroom_ms, summary.eta_ms) == (90_000, 5_000, 7_000)
    assert (summary.verdict, summary.time_lag_unknown) == (Verdict.BEHIND, 0)


def test_a_copied_partition_does_not_hide_one_whose_lag_is_unknown() -> None:
    unread = report(B, last_stable=-1, high_watermark=-1, fault="boom")
    stopped = sample(B, verdict=Verdict.FAULTED, time_lag_ms=None, lag_records=None)
    told = fleet([A, B], snapshot(report(A), unread), sample(A, time_lag_ms=0), stopped)

    summary = pages.link_view(look(told, LINK, NOW)).summary

    assert (summary.time_lag_ms, summary.time_lag_unknown) == (0, 1)
    assert (summary.lag_records, summary.lag_unknown) == (10, 1)


def test_where_the_owner_does_not_read_the_lag_services_numbers_are_shown() -> None:
    unread = report(B, last_stable=-1, high_watermark=-1, fault="boom")
    told = fleet([B], snapshot(unread), sample(B, verdict=Verdict.FAULTED, rule="stopped: boom"))

    page = partition_page(told, B)

    assert (page.row.lag_records, page.row.last_stable, page.row.high_watermark) == (10, 110, None)
    assert [one for one in page.why if "boom" in one] == [
        "Verdict faulted: stopped: boom (by the lag service, 2.0s ago)."
    ]


def test_the_estate_names_the_links_to_look_at() -> None:
    seen = [look(busy(), LINK, NOW), look(fleet([], name="east"), BACK, NOW)]

    page = pages.estate_page("demo", [], seen, NOW)

    assert page.words == "2 of 2 links to look at: east → west, west → east."
    assert page.verdict is Verdict.FAULTED
    assert [one.known for one in page.links] == [True, False]
    assert page.links[1].words == (
        "The catalog of fleet east does not have this link yet. Next: mirrorfleet run sync"
        " --target east"
    )
    assert [one.kind for one in page.events] == ["partition-faulted"]


def test_an_estate_without_trouble_says_so_in_one_line() -> None:
    first = snapshot(report(A), time_ms=NOW - 5_500)
    well = fleet([A], first, snapshot(report(A, bytes=14_500)))

    page = pages.estate_page("demo", [], [look(well, LINK, NOW)], NOW)

    assert page.words == "The link is well: 1 partition copied, 1.0 kB/s."
    assert page.verdict is Verdict.OK


def test_a_fleet_that_cannot_be_read_is_unknown_with_the_reason() -> None:
    down = replace(busy(), trouble="west: no broker answers")

    page = pages.estate_page("demo", [], [look(down, LINK, NOW)], NOW)

    assert page.links[0].words == "west cannot be read: west: no broker answers"
    assert not page.links[0].known
    assert page.words == (
        "1 of 1 link to look at: east → west. west cannot be read: west: no broker answers"
    )
    assert pages.link_page(look(down, LINK, NOW), Wanted(), NOW).trouble == (
        "west: no broker answers"
    )


def test_topics_are_filtered_by_name_and_by_verdict() -> None:
    seen = look(busy(), LINK, NOW)

    assert [one.topic for one in pages.link_page(seen, Wanted(), NOW).topics] == [
        "bills",
        "orders",
    ]
    assert [one.topic for one in pages.link_page(seen, Wanted(text="ORD"), NOW).topics] == [
        "orders"
    ]
    problems = pages.topic_page(seen, "orders", Wanted(show="problems"), NOW)
    assert problems is not None
    assert [one.partition for one in problems.partitions] == [1]
    assert pages.topic_page(seen, "nothing", Wanted(), NOW) is None


def test_ten_thousand_partitions_come_in_pages_and_the_last_one_is_kept_to() -> None:
    seen = look(fleet([entry(number) for number in range(10_000)]), LINK, NOW)

    page = pages.topic_page(seen, "orders", Wanted(number=7, size=100), NOW)
    beyond = pages.topic_page(seen, "orders", Wanted(number=999, size=300), NOW)

    assert page is not None
    assert beyond is not None
    assert [one.partition for one in page.partitions] == list(range(600, 700))
    assert page.page == Page(number=7, pages=100, size=100, total=10_000)
    assert [one.partition for one in beyond.partitions] == list(range(9_900, 10_000))
    assert beyond.page.number == 34


def test_workers_are_shown_with_their_slots() -> None:
    (owner,) = pages.link_page(look(busy(), LINK, NOW), Wanted(), NOW).owners

    assert owner.model_dump() == {
        "owner": "worker-1",
        "slots": [3],
        "states": ["copying"],
        "partitions": 2,
        "reported_ms": 500,
    }


def test_a_partition_says_in_words_why_it_is_where_it_is() -> None:
    page = partition_page(busy(), A)

    assert page.headline == "It copies live, 10 records behind the source."
    assert "\n".join(page.why) == (
        "Verdict ok: it copies live (by the owner's report, 500ms ago).\n"
        "The next record to copy is source offset 100; on the target it will get offset 90 of"
        " east.orders or a later one.\n"
        "145 records (14.5 kB) were copied since copying of these two topics began at earliest.\n"
        "Committed readers of the source see records up to offset 110: 10 offsets to go.\n"
        "10 more offsets after it belong to transactions that are still open at the source; they"
        " are copied when those end.\n"
        "The source's log begins at 5, 95 below the position.\n"
        "Slot 3 belongs to worker-1, which is copying and reported 500ms ago.\n"
        "It copies 10 records/s, 1.0 kB/s."
    )
    assert page.segment_words == "The offset map has nothing of it: no record was copied yet."


def test_a_faulted_partition_says_what_to_do() -> None:
    page = partition_page(busy(), B)

    assert page.headline == ("It stands still. Record-too-large at source offset 100: 2000 bytes.")
    assert page.steps == [
        Step(
            words="Raise max.message.bytes of the target topic to what the source topic allows; it"
            " is tried again by itself. Or leave the record out: `mirrorfleet resolve orders-1"
            " --target west --from east --skip`."
        ),
        Step(
            words="Look at the source records.",
            command="mirrorfleet inspect orders-1 --cluster east --from 100 --limit 3",
        ),
    ]
    assert [one.kind for one in page.events] == ["partition-faulted"]


def test_a_partition_that_nobody_reports_says_which_worker_to_start() -> None:
    page = partition_page(busy(), C)

    assert page.headline == (
        "How far it is cannot be told: no worker has reported this partition yet."
    )
    assert page.why[-1] == "The catalog gives it to slot 4, which no worker has reported."
    assert page.steps[0].command == "mirrorfleet run mirror --target west"
    assert page.row.lag_records is None


def test_a_slot_that_its_owner_cannot_take_is_told_and_no_worker_is_to_be_started() -> None:
    state = held_up("fencing", "it was fenced by ann: drill")
    page = partition_page(fleet([A], replace(snapshot(), state=state)), A)

    assert page.headline == "Nobody copies it: slot 3 is not copied: it was fenced by ann: drill."
    assert page.why[-1] == "Slot 3 belongs to worker-1, which is fencing and reported 500ms ago."
    assert page.steps[-1].command == "mirrorfleet status --target west"
    assert page.row.owner == "worker-1"


def test_the_lag_services_words_are_on_the_page() -> None:
    told = fleet([A], snapshot(report(A)), sample(A, headroom_ms=FOREVER_MS))

    page = partition_page(told, A)

    assert page.why[0] == (
        "Verdict ok: within the time that is allowed (by the lag service, 2.0s ago)."
    )
    assert "The next record to copy has been waiting at the source for 1.4s." in page.why
    assert (
        "The source's log begins at 5, 95 below the position; retention takes nothing." in page.why
    )
    assert (page.row.time_lag_ms, page.row.eta_ms) == (1_400, 5_000)
    assert page.steps == [Step(words="Nothing: all is well here.")]


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        (Verdict.STUCK, "It is stuck: as it is."),
        (Verdict.STOPPED, "Nobody copies it: as it is."),
        (Verdict.BEHIND, "It is behind by 10 records: as it is."),
        (Verdict.CATCHING_UP, "It works off a backlog of 10 records; done in 5.0s."),
        (Verdict.IDLE, "Everything is copied, and nothing new comes."),
    ],
)
def test_each_verdict_has_its_first_sentence(verdict: Verdict, headline: str) -> None:
    newest = sample(A, verdict=verdict, rule="as it is", time_ms=NOW - 100)
    told = fleet([A], snapshot(report(A)), newest)

    assert partition_page(told, A).headline == headline


@pytest.mark.parametrize("verdict", [Verdict.OK, Verdict.BEHIND, Verdict.CATCHING_UP, Verdict.IDLE])
def test_where_the_source_is_not_seen_no_verdict_of_before_says_that_all_is_copied(
    verdict: Verdict,
) -> None:
    unseen = sample(A, verdict=verdict, rule="its end was seen 12s ago", lag_records=None)
    told = fleet([A], snapshot(report(A, state="unreachable")), unseen)

    said = "How far it is cannot be told: its end was seen 12s ago."
    assert partition_page(told, A).headline == said


@pytest.mark.parametrize("state", ["faulted", "paused", "unreachable"])
def test_what_nobody_fetches_has_the_lag_that_the_lag_service_sees(state: str) -> None:
    """What the mirror saw last of the source is history."""
    told = fleet([A], snapshot(report(A, state=state)), sample(A, lag_records=50_000))

    assert partition_page(told, A).row.lag_records == 50_000


def test_the_offset_map_has_the_last_word_on_where_the_copy_ends() -> None:
    seen = look(busy(), LINK, NOW)
    one = pages.find(seen, "orders", 0)
    assert one is not None
    index = OffsetIndex()
    run = Run(
        source_start=SourceOffset(5),
        source_end=SourceOffset(100),
        target_start=TargetOffset(0),
        holes=((SourceOffset(20), 4),),
    )
    index.add(A.identity, [run])

    page = pages.partition_page(seen, one, index, "", NOW)

    assert page.segment_words == (
        "The last copied record is source offset 99 and became target offset 90; the map knows the"
        " copy up to source offset 100, in 2 stretches."
    )
    assert partition_page(busy(), A, "2 of 4 slots are still being read").segment_words == (
        "The offset map is not known yet: 2 of 4 slots are still being read."
    )


def test_the_newest_incarnation_is_the_one_that_a_name_means() -> None:
    new = replace(A, identity=replace(A.identity, incarnation=2))

    found = pages.find(look(fleet([new, A]), LINK, NOW), "orders", 0)

    assert found is not None
    assert found.entry is new


def test_events_are_newest_first_and_filtered_by_their_words() -> None:
    early = Event(kind="gap", time_ms=1, writer="w", detail="retention", cause="late")
    late = Event(kind="slot-taken", time_ms=2, writer="w")
    other = replace(fleet([], early, late), target=ClusterAlias("lab"))

    page = pages.events_page([busy(), other], Wanted(), NOW)
    found = pages.events_page([busy(), other], Wanted(text="RETENTION"), NOW)

    assert [one.time_ms for one in page.events] == [NOW - 900, 2, 1]
    assert [(one.kind, one.words) for one in found.events] == [("gap", "retention (late)")]


SILENT = snapshot(
    report(A, next_source=SourceOffset(110), last_stable=SourceOffset(110)), time_ms=NOW - 600_000
)
"""Ten minutes ago all was copied; then its owner died."""


def test_what_a_silent_owner_said_of_the_source_is_no_news() -> None:
    alone = fleet([A], SILENT)
    page = partition_page(alone, A)

    assert (page.row.lag_records, page.row.last_stable) == (None, None)
    assert pages.link_view(look(alone, LINK, NOW)).summary.lag_unknown == 1
    assert "when its owner read last; how much is left to copy is not known." in " ".join(page.why)
    assert "nothing is left to copy" not in " ".join(page.why)


def test_what_a_silent_owner_cannot_know_the_lag_service_says() -> None:
    measured = sample(A, verdict=Verdict.STOPPED, lag_records=1_000, source_end=1_110)
    page = partition_page(fleet([A], SILENT, measured), A)

    assert (page.row.lag_records, page.row.last_stable) == (1_000, 1_110)
    assert "1,000 offsets to go, by the lag service." in " ".join(page.why)


def test_of_a_source_that_does_not_answer_the_owner_nothing_is_known_and_nothing_is_well() -> None:
    found = fleet([A], snapshot(report(A, next_source=SourceOffset(110), state=UNREACHABLE)))
    page = partition_page(found, A)

    assert (page.row.verdict, page.row.lag_records) == (Verdict.UNKNOWN, None)
    assert "how much is left to copy is not known" in " ".join(page.why)


def test_no_page_says_that_something_was_copied_when_a_backlog_waited_for_its_turn() -> None:
    """An owner moves that time also where nothing is left, and where another one goes first."""
    told = fleet([A], snapshot(report(A, state="waiting", last_progress_ms=NOW)))

    (said,) = [each for each in partition_page(told, A).why if "UTC" in each]
    assert said.startswith("It copied, had nothing left to copy, or waited for its turn last at ")
