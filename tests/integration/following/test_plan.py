"""`mirrorfleet plan` and `apply`, beside a `sync` that may only report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mirrorfleet.config.load import load_estate
from services.cli.__main__ import main
from services.sync.report import LinkReport
from tests.faultkit.hold import IS_LONG
from tests.faultkit.waiting import until
from tests.integration.following.conftest import Guarded
from tests.integration.following.kit import an_acl, estate_of, grant_sync
from tests.integration.sync.fleet import Hand, Running, fresh, syncing

Captured = pytest.CaptureFixture[str]
CREATED = (
    "2 partitions, replication factor 1, cleanup.policy=delete, compression.type=producer,"
    " message.timestamp.after.max.ms=9223372036854775807, message.timestamp.type=CreateTime,"
    " retention.ms=1000000"
)


async def cli(capsys: Captured, command: str, file: Path, *more: str) -> tuple[int, str]:
    """The exit code and what was printed on stdout; what is said beside it stays unread."""
    capsys.readouterr()
    words = [command, "--estate", str(file), "--target", "west", *more]
    return await asyncio.to_thread(main, words), capsys.readouterr().out


async def planned(capsys: Captured, file: Path) -> tuple[int, list[tuple[str, str, str]]]:
    """The plan's lines but those of control topics and the link."""
    code, text = await cli(capsys, "plan", file, "-o", "json")
    lines = [(c["change"], c["what"], c["detail"]) for c in json.loads(text)["changes"]]
    return code, [line for line in lines if line[0] not in {"control-topic", "link"}]


FOLLOWED_S = 10.0 if IS_LONG else 30.0
MANUAL = {"apply": "manual", "period_s": 0.5, "acls_period_s": 0.5}


async def drifts(report: LinkReport, lines: int) -> list[tuple[str, str, str]]:
    """Wait until so many changes wait for somebody to say yes."""

    def same() -> bool:
        if len(report.drift) != lines:
            raise LookupError(f"{report.drift} {report.trouble}")
        return True

    await until(same, deadline_s=FOLLOWED_S, what=f"{lines} lines", ignoring=(LookupError,))
    return [(each.kind, each.what, each.detail) for each in report.drift]


@pytest.mark.timeout(240)
async def test_the_plan_names_each_change_before_it_happens_and_apply_makes_exactly_these(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path, capsys: Captured
) -> None:
    topic = fresh("planned")
    copy, long = f"east.{topic}", topic + "x" * (247 - len(topic))
    file = estate_of(guarded, tmp_path, f"{topic}.*", link={"acls": "mirror"}, sync=MANUAL)
    await grant_sync(file, on_source, on_target)
    await on_source.create(topic, 2, {"retention.ms": "1000000"})
    await on_source.create(long)
    await on_source.give(an_acl(f"ALLOW User:alice ALL TOPIC LITERAL {topic}"))
    before = await on_target.topics()

    assert await planned(capsys, file) == (
        2,
        [
            ("add-acl", f"ALLOW User:alice READ on TOPIC LITERAL {copy} from *", ""),
            ("create-topic", copy, CREATED),
            ("copy", copy, f"from {topic}: partitions 0 to 1, start earliest"),
        ],
    )
    _, text = await cli(capsys, "plan", file, "-o", "json")
    refused = [(one["topic"], one["reason"]) for one in json.loads(text)["refused"]]
    assert refused == [(long, "name")]
    assert (await cli(capsys, "apply", file))[0] == 1  # nobody is there to be asked
    assert (await on_target.topics(), await on_target.acls([copy])) == (before, set())

    code, text = await cli(capsys, "apply", file, "--yes", "-o", "json")

    assert (code, {row["outcome"] for row in json.loads(text)}) == (0, {"made"})
    found = await on_target.overrides(copy)
    assert ", ".join(f"{name}={found[name]}" for name in sorted(found)) in CREATED
    assert await on_target.acls([copy]) == {an_acl(f"ALLOW User:alice READ TOPIC LITERAL {copy}")}
    assert await planned(capsys, file) == (0, [])


async def told(hand: Hand, sync: Running) -> bool:
    """Whether drift was told, and its end after it; nothing else happened."""
    kinds = [each.kind for each in await hand.events(sync.fleet)]
    return set(kinds) == {"drift-found", "drift-ended"} and kinds[-1] == "drift-ended"


@pytest.mark.timeout(240)
async def test_where_changes_are_made_by_hand_sync_reports_drift_and_apply_ends_it(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path, capsys: Captured
) -> None:
    topic = fresh("drift")
    copy = f"east.{topic}"
    file = estate_of(guarded, tmp_path, topic, sync=MANUAL)
    await grant_sync(file, on_source, on_target)
    await on_source.create(topic, 1, {"retention.ms": "1000000"})
    assert (await cli(capsys, "apply", file, "--yes"))[0] == 0
    async with syncing(load_estate(file)) as sync:
        (report,) = sync.service.reports
        assert await drifts(report, 0) == []
        await on_source.alter(topic, retention_ms="5000000")
        await on_source.grow(topic, 3)
        lines = await drifts(report, 4)
        note = sync.health.notes()["link east->west"]
        gauge = [line for line in sync.metric("sync_drift") if not line.startswith("#")]
        untouched = await on_target.overrides(copy), (await on_target.topics())[copy]
        assert await planned(capsys, file) == (2, lines)
        assert (await cli(capsys, "apply", file, "--yes"))[0] == 0
        assert await drifts(report, 0) == []
        await on_target.shows(sync.fleet, [(topic, copy, number) for number in range(3)])
        await until(
            lambda: told(on_target, sync),
            deadline_s=FOLLOWED_S,
            what="an event for drift, and one for its end",
        )

    assert lines == [
        ("add-partitions", copy, "1 -> 3 partitions"),
        ("copy", copy, f"from {topic}: partitions 1 to 2, start earliest"),
        ("config", copy, "retention.ms: 1000000 -> 5000000"),
        ("terms", copy, f"from {topic}: partition 0"),
    ]
    assert (note, sync.health.ready) == ("4 changes wait for `mirrorfleet apply`", True)
    assert gauge == ['mirrorfleet_sync_drift{link="east->west"} 4.0']
    assert (untouched[0]["retention.ms"], untouched[1]) == ("1000000", 1)
    assert (await on_target.overrides(copy))["retention.ms"] == "5000000"


async def test_what_was_refused_is_said_and_the_rest_is_made(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path, capsys: Captured
) -> None:
    topic = fresh("partly")
    file = estate_of(guarded, tmp_path, f"{topic}-.*", rule={"replication_factor": 1})
    given = await grant_sync(file, on_source, on_target)
    (create,) = [
        each for each in given if (each.name, each.operation.name) == (f"east.{topic}-", "CREATE")
    ]
    await on_source.create(f"{topic}-a")
    await on_source.create(f"{topic}-b")
    await on_target.take_back(create)
    await on_target.give(create._replace(name=f"east.{topic}-a"))

    code, text = await cli(capsys, "apply", file, "--yes", "-o", "json")

    outcomes = {
        (row["outcome"], row["change"], row["what"])
        for row in json.loads(text)
        if row["change"] in {"create-topic", "copy"}
    }
    assert code == 1
    assert outcomes == {
        ("made", "create-topic", f"east.{topic}-a"),
        ("made", "copy", f"east.{topic}-a"),
        ("NOT MADE", "create-topic", f"east.{topic}-b"),
        ("NOT MADE", "copy", f"east.{topic}-b"),
    }
