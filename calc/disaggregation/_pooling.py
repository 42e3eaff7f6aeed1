"""Two servers and two kinds of jobs, exactly: one line before both, or a server for each kind."""

from __future__ import annotations

from dataclasses import dataclass

from calc.queueing import eliminated, mm1_wait
from calc.queueing import utilization as busy
from calc.units import CalcError, plain

ROUNDS = 60  # of the search for the matrix of rates; each doubles how far it looks
CLOSE = 1e-15
SEARCH = 20  # halvings on the way to a crossing

Matrix = list[list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoKinds:
    """Jobs of two kinds with exponential times, each kind with its own limit in proportion to its length.

    Attributes
    ----------
    short_s, long_s : float
        Mean time of a job of each kind, seconds.
    short_share : float
        Share of the jobs that are short.
    """

    short_s: float
    long_s: float
    short_share: float

    def __post_init__(self) -> None:
        plain("TwoKinds", "short_s", self.short_s, "second>0")
        plain("TwoKinds", "long_s", self.long_s, "second>0")
        if not 0 < self.short_share < 1:
            raise CalcError(f"the share of short jobs is {self.short_share}, wanted more than 0 and less than 1")

    @property
    def mean_s(self) -> float:
        """Mean time of a job, seconds."""
        return self.short_share * self.short_s + (1 - self.short_share) * self.long_s

    @property
    def short_load(self) -> float:
        """Share of all work that short jobs bring: 0.5 where two servers apart are equally busy."""
        return self.short_share * self.short_s / self.mean_s

    def rate(self, utilization: float) -> float:
        """Jobs per second that keep two servers busy for this share of the time, on average."""
        return 2 * utilization / self.mean_s

    def apart(self, arrival_rate: float) -> float:
        """Mean wait with a server for each kind, in multiples of the job's own mean time.

        Raises
        ------
        Unstable
            If jobs of a kind arrive faster than its server finishes them.
        """
        short = mm1_wait(arrival_rate=arrival_rate * self.short_share, service_s=self.short_s)
        long = mm1_wait(arrival_rate=arrival_rate * (1 - self.short_share), service_s=self.long_s)
        return self.short_share * short / self.short_s + (1 - self.short_share) * long / self.long_s

    def pooled(self, arrival_rate: float) -> float:
        """Mean wait with one line before both servers, in multiples of the job's own mean time.

        Raises
        ------
        CalcError
            If jobs arrive faster than both servers finish them.
        """
        wait = two_server_wait(arrival_rate=arrival_rate, kinds=self)
        return wait * (self.short_share / self.short_s + (1 - self.short_share) / self.long_s)

    def crossing(self, *, least: float = 0.01, most: float = 0.99) -> float | None:
        """The busy share from which on a server for each kind waits less, or None where one line always does.

        Looks for the first such load up to where a server of those apart is busy all the time.
        """
        most = min(most, most * 0.5 / max(self.short_load, 1 - self.short_load))

        def ahead(utilization: float) -> bool:
            rate = self.rate(utilization)
            return self.apart(rate) < self.pooled(rate)

        grid = [least + (most - least) * place / 16 for place in range(17)]
        found = next((place for place, load in enumerate(grid) if ahead(load)), None)
        if found is None:
            return None
        if not found:
            return grid[0]
        low, high = grid[found - 1], grid[found]
        for _ in range(SEARCH):
            middle = (low + high) / 2
            low, high = (low, middle) if ahead(middle) else (middle, high)
        return high


def equally_loaded(*, times_longer: float, pieces: float = 1.0) -> TwoKinds:
    """Short jobs of one second and long ones, so many that both kinds bring the same work.

    Parameters
    ----------
    times_longer : float
        Mean time of a long job over that of a short one.
    pieces : float
        Equal jobs that each long one is cut into, none of them shorter than a short one.

    Examples
    --------
    >>> equally_loaded(times_longer=9).short_share
    0.9
    >>> equally_loaded(times_longer=9, pieces=3).long_s
    3.0
    """
    plain("equally_loaded", "times_longer", times_longer, ">0")
    plain("equally_loaded", "pieces", pieces, ">0")
    long = max(times_longer / pieces, min(times_longer, 1.0))
    return TwoKinds(short_s=1.0, long_s=long, short_share=long / (1 + long))


def two_server_wait(*, arrival_rate: float, kinds: TwoKinds) -> float:
    """Mean wait before two servers that take jobs of two exponential kinds in the order of arrival, exactly.

    Parameters
    ----------
    arrival_rate : float
        Jobs per second, at random.
    kinds : TwoKinds

    Returns
    -------
    float
        Seconds from arrival to the start of service: M/H₂/2.

    Raises
    ------
    CalcError
        If jobs arrive faster than both servers finish them.

    Notes
    -----
    States are the jobs present and, of those served, how many are short. From two jobs on the levels look alike, so
    their probabilities follow from one matrix of rates.

    References
    ----------
    Latouche and Ramaswami, "A logarithmic reduction algorithm for quasi-birth-death processes", Journal of Applied
    Probability 30(3), 1993.

    Examples
    --------
    >>> alike = TwoKinds(short_s=1, long_s=1, short_share=0.5)
    >>> round(two_server_wait(arrival_rate=1.6, kinds=alike), 6)  # M/M/2 at 80%
    1.777778
    """
    plain("two_server_wait", "arrival_rate", arrival_rate, "1/second>0")
    if busy(arrival_rate=arrival_rate, service_s=kinds.mean_s, servers=2) >= 1:
        raise CalcError("jobs arrive faster than two servers finish them: the line grows without end")
    come, ends = arrival_rate, (1 / kinds.long_s, 1 / kinds.short_s)
    chance = (1 - kinds.short_share, kinds.short_share)
    leave = [short * ends[1] + (2 - short) * ends[0] for short in range(3)]
    down = [[0.0] * 3 for _ in range(3)]  # to a level where somebody waits: the next job takes the place
    to_one = [[0.0] * 2 for _ in range(3)]  # nobody waits: the other one is left
    for short in range(3):
        for ended, number in ((1, short), (0, 2 - short)):
            rate = number * ends[ended]
            if rate:
                to_one[short][short - ended] += rate
                for follows in (0, 1):
                    down[short][short - ended + follows] += rate * chance[follows]
    rates = _rates(come, leave, down)
    # unknowns: nobody there, one long, one short, and two of whom none, one or both are short
    rows: Matrix = [[0.0] * 6 for _ in range(6)]
    rows[0] = [come, -ends[0], -ends[1], 0.0, 0.0, 0.0]
    for kind in (0, 1):
        row = rows[1 + kind]
        row[0], row[1 + kind] = -come * chance[kind], come + ends[kind]
        for short in range(3):
            row[3 + short] -= to_one[short][kind]
    back = _product(rates, down)
    for short in range(3):
        row = rows[3 + short]
        row[3 + short] += come + leave[short]
        for other in range(3):
            row[3 + other] -= back[other][short]
        for kind in (0, 1):
            if 0 <= short - kind <= 1:
                row[1 + kind] -= come * chance[short - kind]
    above = _inverse([[(i == j) - rates[i][j] for j in range(3)] for i in range(3)])
    rows[0] = [1.0, 1.0, 1.0, *(sum(row) for row in above)]  # all probabilities, for an equation that follows
    solved = _solve(rows, [1.0] + [0.0] * 5)
    waiting = _product(_product([solved[3:]], rates), _product(above, above))[0]
    return sum(waiting) / come


def _rates(come: float, leave: list[float], down: Matrix) -> Matrix:
    """The matrix of rates, by the logarithmic reduction of Latouche and Ramaswami: each round doubles the levels."""
    stay = [come + rate for rate in leave]
    up = [[(i == j) * come / stay[i] for j in range(3)] for i in range(3)]
    low = [[down[i][j] / stay[i] for j in range(3)] for i in range(3)]
    first, reach = [row[:] for row in low], [row[:] for row in up]
    for _ in range(ROUNDS):
        both = _sum(_product(up, low), _product(low, up))
        solved = _inverse([[(i == j) - both[i][j] for j in range(3)] for i in range(3)])
        up, low = _product(solved, _product(up, up)), _product(solved, _product(low, low))
        first, reach = _sum(first, _product(reach, low)), _product(reach, up)
        if max(map(max, reach)) < CLOSE:
            break
    back = [[(i == j) * stay[i] - come * first[i][j] for j in range(3)] for i in range(3)]
    return [[come * value for value in row] for row in _inverse(back)]


def _sum(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(row, other, strict=True)] for row, other in zip(a, b, strict=True)]


def _product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def _inverse(matrix: Matrix) -> Matrix:
    size = len(matrix)
    return eliminated([[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)])


def _solve(matrix: Matrix, right: list[float]) -> list[float]:
    return [row[0] for row in eliminated([[*row, value] for row, value in zip(matrix, right, strict=True)])]
