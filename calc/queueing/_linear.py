"""Linear equations: a handful at a time, by elimination."""

from __future__ import annotations

from collections.abc import Sequence

from calc.units import CalcError

_NOTHING = 1e-12  # of a row's largest number: what rounding leaves of a pivot where the row follows from the others


class SingularMatrix(CalcError):
    """Equations of which one follows from the others: they have no answer, or more than one."""


def eliminated(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """What stands to the right of a square matrix once elimination with pivots has made it the identity.

    Parameters
    ----------
    rows : sequence of sequences of float
        Each row of the matrix, and behind it the right sides: one number to solve equations, a row of the identity to
        invert the matrix.

    Returns
    -------
    list of list of float
        The right sides, solved.

    Raises
    ------
    SingularMatrix
        If a row follows from the others, but for rounding.

    Examples
    --------
    >>> eliminated([[2.0, 1.0, 5.0], [1.0, -1.0, 1.0]])
    [[2.0], [1.0]]
    """
    table = [(max(map(abs, row[: len(rows)])), list(row)) for row in rows]
    for place in range(len(table)):
        pivot = max(range(place, len(table)), key=lambda i: abs(table[i][1][place]))
        table[place], table[pivot] = table[pivot], table[place]
        size, row = table[place]
        if abs(row[place]) <= _NOTHING * size:
            raise SingularMatrix(f"equation {place + 1} of {len(table)} follows from the others: leave one out")
        top = [value / row[place] for value in row]
        table[place] = size, top
        for i, (size, row) in enumerate(table):
            if i != place and (factor := row[place]):
                table[i] = size, [x - factor * y for x, y in zip(row, top, strict=True)]
    return [row[len(rows) :] for _, row in table]
