"""A log line is JSON with known keys and without secrets."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from mirrorfleet.runtime.log import SELDOM_S, Fields, JsonLines, Seldom, fields


def lines_of(*secrets: str) -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(secrets))
    log = logging.Logger("test.log")  # noqa: LOG001 - outside the tree of loggers, so that none is changed
    log.addHandler(handler)
    return log, stream


def test_the_message_says_what_and_the_keys_say_which() -> None:
    log, stream = lines_of()

    log.warning("topic refused", extra=fields(topic="orders", partition=0, error="denied"))

    line = json.loads(stream.getvalue())
    del line["time_ms"]
    assert line == {
        "level": "warning",
        "logger": "test.log",
        "message": "topic refused",
        "topic": "orders",
        "partition": 0,
        "error": "denied",
    }


def test_a_secret_that_is_known_only_later_is_struck_too() -> None:
    log, stream = lines_of("hunter22")
    formatter = log.handlers[0].formatter
    assert isinstance(formatter, JsonLines)

    formatter.also_strike(["a token"])
    log.warning("hunter22 sent a token")

    assert json.loads(stream.getvalue())["message"] == "*** sent ***"


def test_every_key_of_the_dictionary_is_shown() -> None:
    log, stream = lines_of()
    named = dict.fromkeys(Fields.__annotations__, 7)

    log.warning("all", extra=named)

    assert named.items() <= json.loads(stream.getvalue()).items()


def test_a_key_outside_the_dictionary_is_not_shown() -> None:
    log, stream = lines_of()

    log.warning("odd", extra={"record_value": "private"})

    assert "private" not in stream.getvalue()


def test_secrets_are_struck_from_message_keys_and_traceback() -> None:
    log, stream = lines_of("hunter22", "hunter22-and-more")

    try:
        raise ValueError("login hunter22 failed")
    except ValueError:
        log.exception("tried hunter22-and-more", extra=fields(error="hunter22"))

    text = stream.getvalue()
    assert "hunter22" not in text
    assert "and-more" not in text
    assert json.loads(text)["message"] == "tried ***"


def test_a_secret_is_struck_also_as_repr_shows_it_and_without_its_outer_spaces() -> None:
    log, stream = lines_of("hunter22\n", "pass\tword\\1")

    log.warning("refused %r, %r and hunter22", "hunter22\n", "pass\tword\\1")

    assert json.loads(stream.getvalue())["message"] == "refused '***', '***' and ***"


def test_a_line_break_stays_inside_its_line() -> None:
    log, stream = lines_of()

    log.warning("one\ntwo")

    assert stream.getvalue().count("\n") == 1


def at(seconds: float, message: str, name: str = "aiokafka.client") -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, "", 0, "%s", (message,), None)
    record.created = seconds
    return record


def test_equal_lines_of_aiokafka_are_written_now_and_then_with_their_number() -> None:
    seldom, away = Seldom(), "no broker 3"
    first = [seldom.filter(at(100 + tenth / 10, away)) for tenth in range(100)]
    again = at(100 + SELDOM_S, away)
    another, ours = at(101, "no broker 2"), at(101, away, "mirrorfleet.kafka.cluster")

    assert (first, seldom.filter(again)) == ([True] + [False] * 99, True)
    assert again.getMessage() == "no broker 3 (and 99 times more)"
    assert seldom.filter(another)
    assert seldom.filter(ours)
    assert seldom.filter(at(50, away)), "the clock was set back"


def test_lines_that_are_all_different_are_not_kept() -> None:
    seldom = Seldom()
    for second in range(1_000):
        seldom.filter(at(second, f"connection {second} was lost"))

    assert len(seldom._passed) <= 2 * SELDOM_S
    assert len(seldom._left_out) <= 2 * SELDOM_S


def test_configure_replaces_the_handlers_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mirrorfleet.runtime.log import configure

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [logging.StreamHandler(sys.stdout)])
    level = root.level
    stream = io.StringIO()
    configure(level="warning", stream=stream)
    try:
        logging.getLogger("any").info("quiet")
        logging.getLogger("any").warning("loud")
    finally:
        root.setLevel(level)

    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["loud"]
