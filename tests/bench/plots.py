"""Bars for the docs, one SVG a workload, from rows of the bench: pure, and without a library.

    python -m tests.bench.plots [--rows .local/bench/latest.json]... [--into docs/plots]

Several files are put together; of rows for the same workload, system and way the last one counts.
The rows that were drawn are kept beside the plots, in `rows.json`: a test draws them again.
"""

from __future__ import annotations

import argparse
import json
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.bench.rows import Row, is_ours, save
from tests.bench.sides import HOME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INTO: Final = Path(__file__).resolve().parents[2] / "docs" / "plots"
KEPT: Final = "rows.json"
LABELS_PX: Final = 190
BARS_PX: Final = 360
BAR_PX: Final = 18
GAP_PX: Final = 6
TITLE_PX: Final = 30
WIDTH_PX: Final = LABELS_PX + BARS_PX + 90
OURS: Final = "#1a73e8"
THEIRS: Final = "#9aa0a6"


class Panel(NamedTuple):
    """One figure of every system."""

    name: str
    title: str


THROUGHPUT: Final = (
    Panel("mb_s", "MB/s (more is better)"),
    Panel("cpu_s_per_gb", "CPU-seconds of the copier for a GB (less is better)"),
    Panel("rss_mb", "resident memory, MB"),
)
DELAY: Final = (
    Panel("p50_ms", "p50, ms"),
    Panel("p99_ms", "p99, ms"),
    Panel("cpu_s_per_gb", "CPU-seconds of the copier for a GB"),
)


def way(row: Row) -> str:
    """The workload and how its source was reached: the name of a plot."""
    far = f"-{row.rtt_ms:g}ms" if row.rtt_ms else ""
    window = f"-{row.window_bytes // 1_000}kB" if row.window_bytes else ""
    security = "" if row.security == "plaintext" else f"-{row.security}"
    return f"{row.workload}{far}{window}{security}"


def merged(rows: Iterable[Row]) -> list[Row]:
    """The last row of each workload, way and system."""
    return list({(way(row), row.system, row.delivery): row for row in rows}.values())


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """File name -> SVG."""
    by_way: dict[str, list[Row]] = {}
    for row in rows:
        by_way.setdefault(way(row), []).append(row)
    return {f"{name}.svg": svg(name, found) for name, found in by_way.items()}


def svg(title: str, rows: Sequence[Row]) -> str:
    """Bars of one workload, panel under panel."""
    panels = DELAY if any(row.p50_ms is not None for row in rows) else THROUGHPUT
    y = TITLE_PX
    drawn = [_text(10, 20, title, weight="bold")]
    for panel in panels:
        drawn.append(_text(10, y + 14, panel.title))
        y += 22
        most = max((_value(row, panel) or 0.0 for row in rows), default=0.0) or 1.0
        for row in rows:
            drawn += _bar(row, _value(row, panel), most, y)
            y += BAR_PX + GAP_PX
        y += GAP_PX
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{y}"'
        ' font-family="sans-serif" font-size="13">'
    )
    back = f'<rect width="{WIDTH_PX}" height="{y}" fill="#ffffff"/>'
    return "\n".join([head, back, *drawn, "</svg>"]) + "\n"


def _value(row: Row, panel: Panel) -> float | None:
    found: float | None = getattr(row, panel.name)
    return found


def _bar(row: Row, value: float | None, most: float, y: int) -> list[str]:
    ours = is_ours(row.system)
    length = round(BARS_PX * (value or 0.0) / most, 1)
    shown = _shown(value)
    bar = f'<rect x="{LABELS_PX}" y="{y}" width="{length}" height="{BAR_PX}"'
    return [
        _text(10, y + 13, f"{row.system}, {row.delivery}"),
        f'{bar} fill="{OURS if ours else THEIRS}"/>',
        _text(LABELS_PX + length + 6, y + 13, shown),
    ]


def _shown(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _text(x: float, y: int, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y}" font-weight="{weight}" fill="#202124">{escape(text)}</text>'


def read(file: Path) -> list[Row]:
    """The rows of a file that the bench wrote."""
    return [Row(**each) for each in json.loads(file.read_text())]


def draw(rows: Sequence[Row], into: Path) -> list[Path]:
    """Write a plot of each workload and the rows that they show; the files."""
    into.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in plots(rows).items():
        (into / name).write_text(text)
        written.append(into / name)
    save(rows, into / KEPT)
    return written


def main(arguments: list[str] | None = None) -> int:
    """Draw, and say where."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plots", description="Draw.")
    parser.add_argument("--rows", type=Path, action="append")
    parser.add_argument("--into", type=Path, default=INTO)
    options = parser.parse_args(arguments)
    files = options.rows or [HOME / "bench" / "latest.json"]
    for file in draw(merged(row for each in files for row in read(each)), options.into):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
