"""`python -m services.lag --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.lag.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="lag", build=build, http_port=8170)))
