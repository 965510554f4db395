from __future__ import annotations

import xml.etree.ElementTree as ET

from spark.page import bar_plot, line_plot, page

ROW = {
    "link": "east->west",
    "topic": "<script>alert(1)</script>",
    "window_start_ms": 0,
    "window_end_ms": 3_600_000,
    "partitions": 2,
    "minutes": 120,
    "copied": 7,
    "lost": 0,
    "faults": 1,
    "freshness": 0.99899,
    "availability": 1.0,
    "completeness": None,
    "worst_lag_ms": 61_250,
}
MINUTE = {"partitions": 4, "fresh": 3, "available": 4, "worst_lag_ms": 500}


def test_the_page_has_the_numbers_and_marks_a_broken_promise() -> None:
    text = page([ROW], [])

    assert '<td class="broken">99.899 %</td><td>100.000 %</td><td>-</td><td>61.2 s</td>' in text
    assert "1970-01-01 00:00 UTC to 1970-01-01 01:00 UTC" in text


def test_names_cannot_bring_script_into_the_page() -> None:
    minute = {**MINUTE, "link": ROW["link"], "topic": ROW["topic"], "minute_ms": 0}
    text = page([ROW], [minute])

    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert text.count("<svg") == 2


def test_a_window_without_copies_says_so() -> None:
    assert "Nothing was copied in this window." in page([], [])


def test_a_line_goes_from_left_to_right_with_the_highest_at_the_top() -> None:
    (line, label) = ET.fromstring(line_plot([0.0, 5.0, 10.0]))

    assert line.get("points") == "0.0,120.0 360.0,67.0 720.0,14.0"
    assert label.text == "10.0"


def test_a_line_has_a_hole_where_nothing_is_known() -> None:
    drawn = list(ET.fromstring(line_plot([0.0, 5.0, None, None, 10.0])))

    points = [line.get("points") for line in drawn[:-1]]
    assert points == ["0.0,120.0 180.0,67.0", "720.0,14.0 720.0,14.0"]
    assert drawn[-1].text == "10.0"


def test_a_lag_that_is_not_known_is_not_drawn_as_none() -> None:
    unknown = {**MINUTE, "link": ROW["link"], "topic": ROW["topic"], "worst_lag_ms": None}
    text = page([ROW], [{**unknown, "minute_ms": 0}])

    assert "<polyline" not in text
    assert text.count("<svg") == 2


def test_a_bar_stands_where_something_was_wrong() -> None:
    (bar,) = ET.fromstring(bar_plot([0.0, 0.5]))

    assert (bar.get("x"), bar.get("y"), bar.get("height")) == ("360.0", "60.0", "60.0")


def test_a_page_of_many_topics_looks_at_each_minute_a_few_times_only() -> None:
    looked = 0

    class Counted(dict[str, object]):
        def __getitem__(self, name: str) -> object:
            nonlocal looked
            looked += name == "topic"
            return super().__getitem__(name)

    many = [{**ROW, "topic": f"t{n}"} for n in range(60)]
    series = [Counted(MINUTE, link=ROW["link"], topic=f"t{n}", minute_ms=0) for n in range(60)]
    text = page(many, series)

    assert text.count("<svg") == 2 * len(many)
    assert looked <= 2 * len(series)
