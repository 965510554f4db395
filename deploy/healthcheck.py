"""Is the service of this container doing its job? Exit 0 when `/readyz` answers 200.

Run as `python -I -S healthcheck.py` every few seconds in every container, so it imports nothing
that costs: sockets only, a fifth of what urllib takes.
"""

import os
import socket
import sys

DEADLINE_S = 5.0

port = int(os.environ.get("MIRRORFLEET_HEALTH_PORT", "8080"))
try:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
        connection.sendall(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = connection.recv(64)
except OSError as error:
    sys.exit(f"port {port}: {error}")
if answer.split(b" ")[1:2] != [b"200"]:
    sys.exit(f"port {port}: /readyz answered {answer.splitlines()[:1]}")
