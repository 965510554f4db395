"""`python -m tests.demo.jobs`: the Spark jobs, each once and in one session.

    python -m tests.demo.jobs --estate FILE --target west --source east --topic orders --output DIR

One session, because a Java machine that starts three times would take half of the demo. What a
job prints is followed by a line `JOB name code seconds`.
"""

from __future__ import annotations

import argparse
import sys
import time

from spark.jobs import compact_offset_syncs, integrity_audit, slo_report


def main() -> int:
    """Run all three; 0 when each ended well."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo.jobs")
    for name in ("estate", "target", "source", "topic", "output"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    fleet = ["--estate", asked.estate, "--target", asked.target]
    output = ["--output", asked.output]
    about = ["--source", asked.source, "--topic", asked.topic]
    codes = []
    for name, job, arguments in (
        ("compact_offset_syncs", compact_offset_syncs.main, fleet),
        ("slo_report", slo_report.main, [*fleet, *output]),
        ("integrity_audit", integrity_audit.main, [*fleet, *output, *about]),
    ):
        began = time.monotonic()
        codes.append(job(arguments))
        print(f"JOB {name} {codes[-1]} {time.monotonic() - began:.0f}", flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
