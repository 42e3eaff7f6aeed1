"""Run a command, and turn every refusal into one line and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from calc.cli._parser import Refused, parser
from calc.units import CalcError

LONGEST = 600  # characters of a complaint


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str or None
        What stands after ``python -m calc``; None takes the process's own.

    Returns
    -------
    int
        0, or 2 for bad input, with one line on standard error.

    Examples
    --------
    >>> main(["size", "--model", "llama-3.1-8b", "--tp", "3"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without "·" still gets the numbers
    try:
        chosen = parser().parse_args(arguments)
        from calc.cli import _commands

        text = _commands.COMMANDS[chosen.command](chosen)
    except (Refused, CalcError) as error:
        return _refuse(str(error))
    except (RecursionError, MemoryError):
        return _refuse("the input is too large or too deeply nested to read")
    except OSError as error:
        return _refuse(f"cannot read or write: {error.strerror or type(error).__name__}")
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
    return 0


def _refuse(message: str) -> int:
    """One line that can't act as anything but text."""
    line = " ".join(message.split())
    line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    print(f"calc: {line}", file=sys.stderr)
    return 2
