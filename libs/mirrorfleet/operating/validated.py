"""What `validate` found, printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.operating.terminal import (
    Output,
    print_json,
    print_table,
    say,
    say_error,
    say_note,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.watching.estate import Report

READ_COMMITTED: Final = (
    "note: exactly once is what a consumer with isolation.level=read_committed sees;"
    " Kafka's default is read_uncommitted."
)


def show_report(estate_file: Path, report: Report, output: Output) -> None:
    """All of it: problems and warnings on stderr, clusters and rules as tables."""
    if output is Output.JSON:
        print_json(
            {
                "ok": not report.problems,
                "problems": report.problems,
                "warnings": report.warnings,
                "clusters": report.clusters,
                "rules": report.rules,
            }
        )
        return
    if report.clusters:
        print_table(list(report.clusters[0]), report.clusters)
    if report.rules:
        print_table(list(report.rules[0]), report.rules)
    for warning in report.warnings:
        say_note(f"warning: {warning}")
    for problem in report.problems:
        say_error(f"{estate_file}: {problem}")
    if not report.problems:
        say(f"{estate_file} is valid.")
        say_note(READ_COMMITTED)
