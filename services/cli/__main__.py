"""The entry point: exit 0 when all is well, 1 with a message, 2 when something is unhealthy."""

from __future__ import annotations

from typer.exceptions import Abort, TyperException

from mirrorfleet.core.errors import MirrorfleetError, leaf_error
from mirrorfleet.operating.terminal import EXIT_ERROR, end_output, give_up, say_error
from mirrorfleet.operating.usage import mistyped
from services.cli.app import app


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; the exit code. An error of ours is a message, never a traceback."""
    try:
        code = app(arguments, prog_name="mirrorfleet", standalone_mode=False)
        end_output()
    except TyperException as error:
        say_error(mistyped(error, "mirrorfleet"))
        return EXIT_ERROR
    except Abort:
        return EXIT_ERROR
    except OSError as error:
        return give_up(error)
    except (MirrorfleetError, ExceptionGroup) as error:
        say_error(str(leaf_error(error)))
        return EXIT_ERROR
    return int(code or 0)


if __name__ == "__main__":
    raise SystemExit(main())
