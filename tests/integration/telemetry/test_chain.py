"""One trace from the producer's region through two hops, and the records as they were."""

from __future__ import annotations

import time

import pytest

from tests.faultkit.collector import SeenSpan
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import access
from tests.integration.telemetry.conftest import AT_C, RECORDS, TOKEN, TOPIC, Chain, Sent
from tests.judge.judging import Copy, Pair, judge
from tests.judge.verdict import Verdict

pytestmark = pytest.mark.timeout(300)  # three regions start in the first one's

STAGES = ("copy", "fetch", "queue", "produce", "commit")
CLOCK_NS = 3_000_000
"""Stamps are of one clock; where another machine's time is written, it has milliseconds."""


def hop(spans: list[SeenSpan], link: str) -> dict[str, SeenSpan]:
    """The spans of one hop by stage, as they ended: fetching what lay there takes no time."""
    (whole,) = [s for s in spans if s.attributes.get("mirrorfleet.link") == link]
    below = [s for s in spans if s.parent_id == whole.span_id and s.stage != "copy"]
    below.sort(key=lambda span: (span.end_ns, span.start_ns))
    return {span.stage: span for span in (whole, *below)}


def shown(sent: Sent, spans: list[SeenSpan], arrived_ns: int) -> None:
    for span in spans:
        at = (span.start_ns - sent.began_ns) / 1e6
        print(f"{span.name:22} {at:8.1f} ms  {span.seconds * 1e3:8.2f} ms")
    print(f"{'arrived':22} {(arrived_ns - sent.began_ns) / 1e6:8.1f} ms")


def test_one_trace_goes_from_the_producers_region_through_both_hops(chain: Chain) -> None:
    sent = chain.produce()
    arrived_ns = chain.arrived_ns(sent)
    spans = chain.trace(sent)
    shown(sent, spans, arrived_ns)
    first, second = hop(spans, "a->b"), hop(spans, "b->c")

    assert tuple(first) == tuple(second) == STAGES
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    assert first["copy"].parent_id == ""
    assert second["copy"].parent_id == first["copy"].span_id
    assert [s["copy"].attributes["mirrorfleet.hop"] for s in (first, second)] == [1, 2]
    assert first["copy"].name == "copy orders"
    assert second["produce"].name == "produce b.a.orders"
    assert first["copy"].attributes["mirrorfleet.source.first_offset"] == sent.first
    assert first["copy"].attributes["messaging.batch.message_count"] == RECORDS
    assert [s["copy"].process["mirrorfleet.fleet"] for s in (first, second)] == ["b", "c"]
    assert chain.collector.headers["authorization"] == TOKEN


def test_what_one_hop_wrote_is_what_the_next_one_read(chain: Chain) -> None:
    sent = chain.produce()
    chain.arrived_ns(sent)
    spans = chain.trace(sent)

    written, read = (hop(spans, link)["copy"].attributes for link in ("a->b", "b->c"))

    assert read["mirrorfleet.source.topic"] == written["mirrorfleet.target.topic"]
    assert read["mirrorfleet.source.first_offset"] == written["mirrorfleet.target.first_offset"]
    assert read["mirrorfleet.source.next_offset"] == written["mirrorfleet.target.next_offset"]


def test_stages_follow_each_other_and_fit_between_producing_and_consuming(chain: Chain) -> None:
    sent = chain.produce()
    visible_ns = chain.visible_ns(sent)
    spans = chain.trace(sent)
    first, second = hop(spans, "a->b"), hop(spans, "b->c")

    for stages in (first, second):
        edges = [stages["copy"].start_ns]
        for stage in STAGES[1:]:
            assert stages[stage].start_ns == edges[-1]
            edges.append(stages[stage].end_ns)
        assert edges == sorted(edges)
        assert edges[-1] == stages["copy"].end_ns
        closing = stages["commit"].events["closing"]
        assert stages["commit"].start_ns <= closing <= stages["commit"].end_ns
    assert sent.began_ns - CLOCK_NS <= first["copy"].start_ns
    assert first["produce"].start_ns >= sent.began_ns
    # The next hop may have it before EndTxn's answer is handled here: its fetch takes no time then.
    is_after = first["copy"].end_ns <= second["copy"].start_ns + CLOCK_NS
    assert is_after or second["fetch"].seconds == 0
    assert first["commit"].events["closing"] <= second["fetch"].end_ns + CLOCK_NS
    # The copy is visible when the marker is written, a little before or after EndTxn's answer.
    assert abs(visible_ns - second["copy"].end_ns) < 1_000_000_000
    whole_s = (visible_ns - sent.began_ns) / 1e9
    traced_s = (second["copy"].end_ns - first["copy"].start_ns) / 1e9
    assert abs(whole_s - traced_s) < 1.0


def test_time_that_a_hop_stood_still_is_in_its_trace_and_nowhere_else(chain: Chain) -> None:
    second = chain.mirrors["c"]
    second.freeze()
    began = time.monotonic()
    sent = chain.produce()
    hold_sync(1.5, reason="the second hop stands still")
    still_s = time.monotonic() - began
    second.thaw()
    chain.arrived_ns(sent)
    spans = chain.trace(sent)
    shown(sent, spans, chain.arrived_ns(sent))

    before, after = hop(spans, "a->b"), hop(spans, "b->c")
    # A fetch that was out when the hop froze waits 500 ms at the broker. Answered with the batch,
    # its span holds the time; answered with nothing before the batch came, the next fetch is asked
    # for after the thaw, and the time lies between the end of one hop and the begin of the other.
    fetched_s = (after["fetch"].end_ns - before["copy"].start_ns) / 1e9
    assert abs(fetched_s - still_s) < 1.0
    assert before["copy"].seconds < still_s
    assert sum(after[stage].seconds for stage in STAGES[2:]) < still_s


def test_records_are_what_they_were(chain: Chain) -> None:
    chain.arrived_ns(chain.produce())

    report = judge(
        Copy(
            source=access(chain.regions["a"]),
            target=access(chain.regions["c"]),
            pairs=[Pair(TOPIC, AT_C)],
        )
    )

    assert report.verdict is Verdict.PASS
    (finding,) = report.findings
    assert finding.source_records == finding.target_records == chain.produced
