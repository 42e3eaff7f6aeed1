"""What a check of a log's number is: the number, what it should be, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from calc.capacity._log import Fact
from calc.units import format_bytes, format_count

AGREES, DIFFERS, RESIDUAL, DERIVED = "agrees", "differs", "residual", "derived"
CLOSE = 0.01  # loading takes a little more than the parameters: tables, buffers


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a log against what it should say.

    Attributes
    ----------
    name : str
    printed, computed : str
        As text with units; empty where there is none.
    verdict : str
        "agrees" (as far as the printed digits go), "differs", "residual" (what remains unexplained, in
        bytes) or "derived" (follows from other lines, and holds no news).
    note : str
    lines : tuple of int
        The log's lines it rests on.
    """

    name: str
    printed: str
    computed: str
    verdict: str
    note: str
    lines: tuple[int, ...] = ()


def close(printed: Fact, value: float, slack: float = 0.0) -> str:
    """The verdict on a printed number: as far as its digits go, and a slack."""
    return AGREES if abs(printed.value - value) <= printed.half_step + slack + 1e-9 * abs(value) else DIFFERS


def span(least: float, most: float) -> str:
    """Two counts as text, or one where they are the same."""
    few, many = format_count(least), format_count(most)
    return few if few == many else f"{few} to {many}"


def signed_bytes(value: float) -> str:
    """Bytes as text, which may be less than none."""
    return f"{'−' if value < 0 else ''}{format_bytes(abs(value))}"
