"""Running the programs that download things: progress as it comes, the reason when it fails."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING, Final

from services.install.paths import InstallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

KEPT_LINES: Final = 200
STEPS_A_LINE: Final = 20
LONGEST_REASON: Final = 300
REASON_WORDS: Final = ("error", "unresolved", "not found", "unreachable", "exception", "timed out")


def say(text: str) -> None:
    """One line of progress; standard error, because standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def run(
    command: Sequence[str],
    *,
    what: str,
    hint: str,
    directory: Path,
    progress: Callable[[str], str | None] = lambda _: None,
) -> None:
    """Run to the end. Some of the output lines for which `progress` gives a text are said.

    Raises: InstallError when it cannot be run or fails; has the line that reads like a reason.
    """
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    try:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise InstallError(f"{what}: {command[0]}: {error.strerror}.", hint=hint) from None
    done = 0
    with process:
        try:
            for line in process.stdout or ():
                kept.append(line.strip())
                step = progress(line)
                done += step is not None
                if step is not None and done % STEPS_A_LINE == 0:
                    say(f"  {done:4} {step}")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise InstallError(f"{what}: {reason(kept)}.", hint=hint)


def reason(lines: Iterable[str]) -> str:
    """Why a program failed, out of what it said: the system's own word for it, if there is one."""
    said = [line for line in lines if line]
    for line in said:
        found = re.search(r"\[Errno -?\d+\] [^'\")]+", line)
        if found:
            return found[0]
    telling = [line for line in said if any(word in line.lower() for word in REASON_WORDS)]
    return (telling or said or ["it said nothing"])[0][:LONGEST_REASON].rstrip(".")
