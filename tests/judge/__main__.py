"""The judge as a command: `python -m tests.judge --source HOST --target HOST --pairs A=B …`.

Exit code 0 PASS, 1 FAIL, 2 UNKNOWN.
"""

from __future__ import annotations

import argparse
import sys

from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import ClusterAccess
from tests.judge.render import render
from tests.judge.verdict import Demands, MissingTail


def main(arguments: list[str] | None = None) -> int:
    """Judge the pairs named on the command line and print the report."""
    asked = _parser().parse_args(arguments)
    report = judge(
        Copy(
            source=ClusterAccess(asked.source, dict(asked.source_property)),
            target=ClusterAccess(asked.target, dict(asked.target_property)),
            pairs=asked.pairs,
            patience_s=asked.patience,
        ),
        demands=Demands(records=asked.min_records, missing_tail=asked.missing_tail),
    )
    print(render(report))
    return int(report.verdict)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge", description="Is each target topic an exact copy?"
    )
    add = parser.add_argument
    add("--source", required=True, metavar="HOST:PORT", help="bootstrap of the source cluster")
    add("--target", required=True, metavar="HOST:PORT", help="bootstrap of the target cluster")
    add("--pairs", required=True, nargs="+", type=Pair.parse, metavar="SOURCE=TARGET")
    for side in ("source", "target"):
        add(
            f"--{side}-property",
            action="append",
            default=[],
            type=_property,
            metavar="KEY=VALUE",
            help=f"a librdkafka setting for the {side} cluster, such as its security",
        )
    add("--patience", type=float, default=30.0, metavar="S", help="wait for a still target")
    add("--min-records", type=int, default=1, metavar="N", help="fewer are UNKNOWN")
    add(
        "--missing-tail",
        type=MissingTail,
        default=MissingTail.UNDECIDED,
        choices=list(MissingTail),
        help="whether records missing at the end are UNKNOWN or lost",
    )
    return parser


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"a property is KEY=VALUE, this is {text!r}")
    return key, value


if __name__ == "__main__":
    sys.exit(main())
