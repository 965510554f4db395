"""`python -m services.checkpoint --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.checkpoint.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="checkpoint", build=build, http_port=8150)))
