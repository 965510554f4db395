"""What commands print: nothing that a terminal would take for a command."""

from __future__ import annotations

import json

import pytest

from mirrorfleet.operating.terminal import print_json, print_table, say, say_error, say_note

EVIL = "x\x1b[2J\x1b]0;pwned\x07\x9b1m"
HARMLESS = "x.[2J.]0;pwned..1m"

Captured = pytest.CaptureFixture[str]


def test_names_of_strangers_move_no_cursor(capsys: Captured) -> None:
    print_table(["group", "topics"], [{"group": EVIL, "topics": [EVIL, "grün"]}])
    say(EVIL)
    say_note(EVIL)
    say_error(f"{EVIL}\nsecond line")
    shown = capsys.readouterr()

    assert shown.out.split() == ["GROUP", "TOPICS", HARMLESS, f"{HARMLESS},", "grün", HARMLESS]
    assert shown.err == f"{HARMLESS}\nerror: {HARMLESS}\nsecond line\n"


def test_programs_get_them_as_they_are_and_terminals_do_not(capsys: Captured) -> None:
    print_json({"group": EVIL + "grün"})
    shown = capsys.readouterr().out

    assert json.loads(shown) == {"group": EVIL + "grün"}
    assert shown.replace("\n", "").isprintable()
    assert "grün" in shown
