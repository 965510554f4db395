"""The traffic maker as a command.

    python -m tests.load --bootstrap HOST:PORT --rate 20000 --seconds 60 \\
        --topics orders:8 table:4:compact

Stops at the end of `--seconds`, or at SIGTERM or SIGINT. Prints one line `ready` when the
traffic begins and, at the end, the tally as one line of JSON. Exit code 0 when every record was
acknowledged, else 1.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.load.lanes import MIX, STEADY, WHOLE
from tests.load.making import Load, create_topics, make
from tests.load.recipes import Topic


def main(arguments: list[str] | None = None) -> int:
    """Make the traffic that the command line asks for."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.property and asked.mix is WHOLE:
        parser.error("--property is for librdkafka, which makes no --whole-batches")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    load = Load(
        bootstrap=asked.bootstrap,
        topics=asked.topics,
        rate=asked.rate,
        seconds=asked.seconds,
        seed=asked.seed,
        huge=asked.huge,
        left_open=asked.left_open,
        sticky=asked.sticky,
        mix=asked.mix,
        properties=dict(pair.split("=", 1) for pair in asked.property),
    )
    create_topics(load)
    tally = make(load, stop, lambda: print("ready", flush=True))
    print(tally.to_json(), flush=True)
    return 1 if tally.unknown.total() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description="Make traffic.")
    add = parser.add_argument
    add("--bootstrap", required=True, metavar="HOST:PORT")
    add("--topics", required=True, nargs="+", type=Topic.parse, metavar="NAME:PARTITIONS[:compact]")
    add("--rate", type=float, default=1000.0, metavar="N", help="records a second, all together")
    add("--seconds", type=float, default=threading.TIMEOUT_MAX, metavar="S")
    add("--seed", default="0", help="the same seed makes the same records")
    add("--huge", type=int, default=0, metavar="N", help="transactions of N records, both ends")
    add("--left-open", type=int, default=0, metavar="N", help="transactions open all the time")
    add("--sticky", type=int, default=1, metavar="N", help="so many in a row for one partition")
    mix = parser.add_mutually_exclusive_group().add_argument
    for name, lanes, what in (
        ("--steady", STEADY, "partitions in turn, without transactions"),
        ("--whole-batches", WHOLE, "the same, each run of --sticky as one batch; takes little CPU"),
    ):
        mix(name, dest="mix", action="store_const", const=lanes, default=MIX, help=what)
    add("--property", action="append", default=[], metavar="KEY=VALUE", help="for librdkafka")
    return parser


if __name__ == "__main__":
    sys.exit(main())
