"""`python -m services.install [VERSION]`: have Java and Kafka here; print where, as JSON."""

from __future__ import annotations

import json
import sys

from services.install.jars import DEFAULT_VERSION, install_kafka
from services.install.paths import InstallError


def main(version: str = DEFAULT_VERSION) -> int:
    """Print `{"java": path, "jars": path}`; exit 1 with a message when it cannot be."""
    try:
        kafka = install_kafka(version)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"java": str(kafka.java), "jars": str(kafka.jars)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
