"""The SLO report as one HTML page: a table, and two plots a topic as inline SVG. No script.

Pure: rows in, text out. Every name is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

Row = Mapping[str, object]

WIDTH: Final = 720
HEIGHT: Final = 120
PROMISES: Final = {"freshness": 0.999, "availability": 0.999, "completeness": 1.0}
"""Least shares; below them a number is marked."""

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1d2433; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid #dfe3ea; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
.broken { color: #b3261e; font-weight: 600; }
svg { display: block; width: 100%; height: auto; background: #f6f7f9; margin: .3rem 0 1.2rem; }
polyline { fill: none; stroke: #2457a6; stroke-width: 1.5; stroke-linecap: round; }
rect { fill: #b3261e; }
text { font-size: 11px; fill: #5b6475; }
"""


def page(rows: Sequence[Row], series: Sequence[Row]) -> str:
    """`SLO` rows of one window, and the `SERIES` of its minutes."""
    ordered = sorted(rows, key=lambda row: (str(row["link"]), str(row["topic"])))
    body = [_window(ordered), _table(ordered)]
    minutes: dict[tuple[object, object], list[Row]] = {}
    for one in sorted(series, key=lambda one: _int(one["minute_ms"])):
        minutes.setdefault(_about(one), []).append(one)
    body += (_plots(row, minutes.get(_about(row), [])) for row in ordered)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Service levels</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>Service levels</h1>\n{''.join(body)}</body></html>\n"
    )


def _about(row: Row) -> tuple[object, object]:
    return row["link"], row["topic"]


def _window(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>Nothing was copied in this window.</p>\n"
    start, end = (_moment(_int(rows[0][name])) for name in ("window_start_ms", "window_end_ms"))
    return f"<p>{start} to {end}</p>\n"


def _table(rows: Sequence[Row]) -> str:
    heads = (
        "link",
        "topic",
        *PROMISES,
        "worst lag",
        "copied",
        "lost",
        "faults",
        "partition-minutes",
    )
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for row in rows:
        cells = [f"<td>{escape(str(row['link']))}</td><td>{escape(str(row['topic']))}</td>"]
        cells += [_share(row[name], least) for name, least in PROMISES.items()]
        worst = row["worst_lag_ms"]
        cells.append(f"<td>{'-' if worst is None else f'{_int(worst) / 1000:.1f} s'}</td>")
        cells += [f"<td>{row[name]}</td>" for name in ("copied", "lost", "faults", "minutes")]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"


def _share(value: object, least: float) -> str:
    broken = ' class="broken"' if isinstance(value, float) and value < least else ""
    return f"<td{broken}>{percent(value)}</td>"


def percent(share: object) -> str:
    """Cut, not rounded: 99.9996 % is not 100 %. "-" for none."""
    return f"{int(share * 100_000) / 1000:.3f} %" if isinstance(share, float) else "-"


def _plots(row: Row, minutes: Sequence[Row]) -> str:
    if not minutes:
        return ""
    lags = [one["worst_lag_ms"] for one in minutes]
    worst = [lag / 1000 if isinstance(lag, int) else None for lag in lags]
    bad = [
        max(1 - _int(one[name]) / _int(one["partitions"]) for name in ("fresh", "available"))
        for one in minutes
    ]
    head = f"<h2>{escape(str(row['link']))} {escape(str(row['topic']))}</h2>\n"
    return (
        f"{head}<p>worst lag by the minute, seconds; no line where it is not known</p>\n"
        f"{line_plot(worst)}"
        f"<p>share of partitions late or not available</p>\n{bar_plot(bad)}"
    )


def line_plot(values: Sequence[float | None]) -> str:
    """Values from left to right, the highest at the top; None leaves a hole in the line."""
    top = max([*(value for value in values if value is not None), 1.0])
    step = WIDTH / max(len(values) - 1, 1)
    lines: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            y = HEIGHT - value / top * (HEIGHT - 14)
            lines[-1].append(f"{place * step:.1f},{y:.1f}")
    drawn = "".join(f'<polyline points="{_points(line)}"/>' for line in lines if line)
    return _svg(f'{drawn}<text x="4" y="11">{top:.1f}</text>')


def _points(line: Sequence[str]) -> str:
    """A line of one point is drawn to itself, as a dot (the style gives it round ends)."""
    return " ".join(line if len(line) > 1 else [*line, *line])


def bar_plot(shares: Sequence[float]) -> str:
    """A bar a minute; the full height is all partitions."""
    step = WIDTH / len(shares)
    bars = [
        f'<rect x="{place * step:.1f}" y="{HEIGHT * (1 - share):.1f}"'
        f' width="{max(step - 1, 1):.1f}" height="{HEIGHT * share:.1f}"/>'
        for place, share in enumerate(shares)
        if share > 0
    ]
    return _svg("".join(bars))


def _svg(content: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{content}</svg>\n'


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
