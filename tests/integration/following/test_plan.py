"""`mirrorfleet plan` and `apply`, beside a `sync` that may only report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mirrorfleet.config.load import load_estate
from services.cli.__main__ import main
from tests.faultkit.waiting import until
from tests.integration.following.conftest import Guarded
from tests.integration.following.kit import an_acl, estate_of, grant_sync
from tests.integration.sync.fleet import PROMISED_S, Hand, fresh, syncing

Captured = pytest.CaptureFixture[str]
FOREVER = "9223372036854775807"


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


@pytest.mark.timeout(240)
async def test_the_plan_names_each_change_before_it_happens_and_apply_makes_exactly_these(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path, capsys: Captured
) -> None:
    topic = fresh("planned")
    copy, long = f"east.{topic}", topic + "x" * (247 - len(topic))
    file = estate_of(
        guarded,
        tmp_path,
        f"{topic}.*",
        link={"acls": "mirror"},
        sync={"apply": "manual", "period_s": 0.5, "acls_period_s": 0.5},
    )
    await grant_sync(file, on_source, on_target)
    await on_source.create(topic, 2, {"retention.ms": "1000000"})
    await on_source.create(long)
    await on_source.give(an_acl(f"ALLOW User:alice ALL TOPIC LITERAL {topic}"))
    before = await on_target.topics()
    first = [
        ("add-acl", f"ALLOW User:alice READ on TOPIC LITERAL {copy} from *", ""),
        (
            "create-topic",
            copy,
            (
                "2 partitions, replication factor 1, cleanup.policy=delete, compression.type=producer,"
                f" message.timestamp.after.max.ms={FOREVER}, message.timestamp.type=CreateTime,"
                " retention.ms=1000000"
            ),
        ),
        ("copy", copy, f"from {topic}: partitions 0 to 1"),
    ]

    assert await planned(capsys, file) == (2, first)
    _, text = await cli(capsys, "plan", file, "-o", "json")
    assert [(one["topic"], one["reason"]) for one in json.loads(text)["refused"]] == [
        (long, "name")
    ]
    async with syncing(load_estate(file)) as sync:
        (report,) = sync.service.reports
        await until(lambda: len(report.drift) == 3, deadline_s=PROMISED_S, what="the drift")
        assert [(d.kind, d.what, d.detail) for d in report.drift] == first
        note = sync.health.notes()["link east->west"]
        assert note.startswith("3 changes wait for `mirrorfleet apply`")
        assert sync.health.ready
        assert (await cli(capsys, "apply", file))[0] == 1  # nobody is there to be asked
        assert set(await on_target.topics()) - set(before) <= {"__consumer_offsets"}
        assert await on_target.acls([copy]) == set()

        code, text = await cli(capsys, "apply", file, "--yes", "-o", "json")

        assert code == 0
        assert {row["outcome"] for row in json.loads(text)} == {"made"}
        await on_target.shows(sync.fleet, [(topic, copy, 0), (topic, copy, 1)])
        assert await planned(capsys, file) == (0, [])
        await until(lambda: not report.drift, deadline_s=PROMISED_S, what="nothing to wait")

        await on_source.alter(topic, retention_ms="5000000")
        await on_source.grow(topic, 3)
        await until(lambda: len(report.drift) == 3, deadline_s=PROMISED_S, what="the new drift")
        assert (await on_target.overrides(copy))["retention.ms"] == "1000000"
        assert await planned(capsys, file) == (
            2,
            [
                ("add-partitions", copy, "2 -> 3 partitions"),
                ("copy", copy, f"from {topic}: partition 2"),
                ("config", copy, "retention.ms: 1000000 -> 5000000"),
            ],
        )
        assert (await cli(capsys, "apply", file, "--yes"))[0] == 0
        assert (await on_target.overrides(copy))["retention.ms"] == "5000000"
        await until(lambda: not report.drift, deadline_s=PROMISED_S, what="nothing to wait again")

    kinds = [each.kind for each in await on_target.events(sync.fleet)]
    assert kinds.count("drift-found") == kinds.count("drift-ended") == 2


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
