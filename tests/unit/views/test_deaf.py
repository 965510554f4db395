"""What a console shows of a fleet that it cannot read: what was known, as of then."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.samples import Verdict
from mirrorfleet.views import pages
from mirrorfleet.views.models import PartitionPage, Step
from mirrorfleet.views.pages import Wanted, look
from mirrorfleet.views.told import Fleet
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry, fleet, report, snapshot

A = entry(0)
DEAF = "west: no broker answers"
LATER = NOW + 3_600_000
SINCE = "1970-01-01 00:17:10 UTC"
"""30 s after NOW."""
REACH = Step(
    words="See whether west answers where this console runs, and ask for the fleet from another"
    " host: the console knows nothing of its workers now.",
    command="mirrorfleet status --target west",
)


def page_of(fleet: Fleet, now_ms: int = LATER) -> PartitionPage:
    seen = look(fleet, LINK, now_ms)
    return pages.partition_page(seen, seen.partitions[0], OffsetIndex(), "", now_ms)


def test_a_console_that_reads_nothing_for_an_hour_calls_no_owner_silent() -> None:
    first, last = snapshot(report(A), time_ms=NOW - 5_500), snapshot(report(A, records=145))
    found = fleet([A], first, last, trouble=DEAF, read_ms=NOW)
    seen = look(found, LINK, LATER)

    link = pages.link_page(seen, Wanted(), LATER)
    topic = pages.topic_page(seen, "orders", Wanted(), LATER)
    page = page_of(found)

    assert topic is not None
    rows = [*topic.partitions, page.row]
    assert {(one.verdict, one.moved_ms, one.reported_ms, one.records_s) for one in rows} == {
        (Verdict.OK, 1_000, 500, 10.0)
    }
    assert [one.summary.verdict for one in (topic.topic, *link.topics)] == [Verdict.OK] * 2
    assert [one.reported_ms for one in link.owners] == [500]
    assert {one.trouble for one in (link, topic, page)} == {DEAF}
    assert {one.read_time_ms for one in (link.link, topic, page)} == {NOW}
    assert link.link.words == "west cannot be read since 1970-01-01 00:16:40 UTC: " + DEAF
    assert (page.headline, page.steps) == (
        "As of 1970-01-01 00:16:40 UTC: It copies live, 10 records behind the source.",
        [REACH],
    )


def test_what_was_known_before_is_told_as_such_and_nobody_is_to_start_a_worker() -> None:
    page = page_of(fleet([A], snapshot(report(A)), trouble=f"{DEAF}.", read_ms=NOW + 30_000))

    assert page.headline == (f"As of {SINCE}: Nobody copies it: its owner has been silent for 30s.")
    assert page.why[:2] == [
        f"west cannot be read since {SINCE}: {DEAF}. What follows was known then.",
        "Verdict stopped: its owner has been silent for 30s (by the owner's report, 30s ago).",
    ]
    assert page.steps == [REACH]


def test_a_fault_that_was_known_before_keeps_its_remedy() -> None:
    told = snapshot(report(A, fault="record-too-large at source offset 100: 2000 bytes"))

    deaf = page_of(fleet([A], told, trouble=DEAF, read_ms=NOW))

    assert deaf.steps == [REACH, *page_of(fleet([A], told), NOW).steps]


def test_nobody_is_to_start_a_worker_whose_words_are_not_heard_here() -> None:
    told = replace(fleet([A], snapshot(report(A), time_ms=NOW - 60_000)), unheard={A.slot})
    page = page_of(told, NOW)

    assert page.row.verdict is Verdict.UNKNOWN
    assert page.steps == [
        Step(
            words="See whether all brokers of west answer where this console runs; look from"
            " elsewhere.",
            command="mirrorfleet status --target west",
        )
    ]
    heard = page_of(replace(told, unheard=()), NOW)
    assert heard.row.verdict is Verdict.STOPPED
    assert heard.steps[0].command == "mirrorfleet run mirror --target west"
