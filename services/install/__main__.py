"""What local regions, Spark and browser tests need; each command leaves it on disk.

python -m services.install kafka [VERSION]   Java and Kafka; prints where, as JSON
python -m services.install spark            Java and the Kafka connector; prints where, as JSON
python -m services.install browser          Chromium; prints where, as JSON
python -m services.install credentials JSON  certificates, passwords and tokens (`Wanted`)
"""

from __future__ import annotations

import json
import sys

from pydantic import TypeAdapter

from services.install.browser import install_browser
from services.install.credentials import Wanted, write
from services.install.jars import DEFAULT_VERSION, install_kafka
from services.install.paths import InstallError
from services.install.spark import install_spark


def kafka(version: str = DEFAULT_VERSION) -> None:
    """Print `{"java": path, "jars": path}`."""
    found = install_kafka(version)
    print(json.dumps({"java": str(found.java), "jars": str(found.jars)}))


def spark() -> None:
    """Print `{"java_home": path, "jars": path}`."""
    found = install_spark()
    print(json.dumps({"java_home": str(found.java_home), "jars": str(found.jars)}))


def browser() -> None:
    """Print `{"chromium": path}`."""
    print(json.dumps({"chromium": str(install_browser())}))


def credentials(wanted: str) -> None:
    """Write what the JSON of a `Wanted` asks for."""
    write(TypeAdapter(Wanted).validate_json(wanted))


def main(*arguments: str) -> int:
    """Run a command; exit 1 with a message when it cannot be done."""
    try:
        match arguments:
            case ("kafka",):
                kafka()
            case ("kafka", version):
                kafka(version)
            case ("spark",):
                spark()
            case ("browser",):
                browser()
            case ("credentials", wanted):
                credentials(wanted)
            case _:
                print(__doc__, file=sys.stderr)
                return 1
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
