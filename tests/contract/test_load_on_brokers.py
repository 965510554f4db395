"""The traffic maker's tally is what is in the log."""

from __future__ import annotations

from uuid import uuid4

from services.local.region import Region
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.judge.reading import (
    At,
    Isolation,
    Order,
    TimestampRule,
    partitions_of,
    read_logs,
)


def test_the_tally_is_what_consumers_of_both_kinds_are_handed(east: Region) -> None:
    names = [f"load-{uuid4().hex[:8]}", f"table-{uuid4().hex[:8]}"]
    topics = [f"{names[0]}:3", f"{names[1]}:2:compact"]
    more = ["--seconds", "2", "--huge", "3000", "--left-open", "1"]
    with traffic(address(east), topics, rate=2000, seed=names[0], more=more) as run:
        tally = run.wait_end(2)
    cluster = access(east)
    numbers = partitions_of(cluster, names)
    places = [At(name, number) for name in names for number in numbers[name]]
    committed, visible = (
        read_logs(cluster, places, Order(isolation=level, timestamps=TimestampRule.SEEN))
        for level in (Isolation.COMMITTED, Isolation.UNCOMMITTED)
    )
    assert {at: len(committed[at].log) for at in places} == dict(tally.committed)
    assert {at: len(visible[at].log) - len(committed[at].log) for at in places} == dict(
        tally.aborted
    )
    assert tally.records > 3000 + 2 * 1000
    assert tally.transactions_committed > 0
    assert tally.transactions_aborted >= 2
    assert tally.unknown.total() == 0
