"""The live panel of the speculation chapter."""

from __future__ import annotations

from calc.hardware import accelerator as chip_of
from calc.models import load
from calc.panel import Panel, Row
from calc.speculation._floor import verification_floor
from calc.speculation._formulas import expected_tokens, round_cost, round_speedup
from calc.speculation._search import best_draft_length, break_even_acceptance
from calc.units import CalcError, counted, format_percent, format_seconds, plain, significant
from calc.working import working

LONGEST = 16  # drafts that the panel tries
DECIMALS = 3  # of a ratio of floors: more would be read as exactness


def speculation_panel(
    *,
    model: str,
    accelerator: str,
    ranks: int,
    batch: int,
    cached: int,
    draft_tokens: int,
    acceptance_percent: float,
    draft_percent: float,
) -> Panel:
    """Panel of the chapter: tokens of a round, its cost where both steps run at their floors, and the speed-up.

    Parameters
    ----------
    model, accelerator : str
        Slugs of the catalogues.
    ranks : int
        Tensor-parallel ranks.
    batch, cached : int
        Sequences that decode together, and positions in the cache of each.
    draft_tokens : int
        Draft tokens of a round.
    acceptance_percent : float
        Acceptance of a tested draft token, in percent.
    draft_percent : float
        Time of one draft token over that of a plain step, in percent.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    geometry, chip = load(model), chip_of(accelerator)
    if not 0 <= acceptance_percent < 100:
        raise CalcError(f"acceptance_percent is {acceptance_percent}, wanted from 0 to below 100")
    if not 1 <= draft_tokens <= LONGEST:
        raise CalcError(f"draft_tokens is {draft_tokens}, wanted from 1 to {LONGEST}")
    share = plain("speculation_panel", "draft_percent", draft_percent, "") / 100
    alpha = acceptance_percent / 100

    def checked(k: int) -> float:
        floor = verification_floor(geometry, chip, batch=batch, cached=cached, draft_tokens=k, ranks=ranks)
        return round(floor.cost, DECIMALS)

    lengths = range(1, LONGEST + 1)
    tokens = {k: expected_tokens(acceptance=alpha, draft_tokens=k) for k in lengths}
    costs = {k: round_cost(draft_tokens=k, draft_cost=share, verify_cost=checked(k)) for k in lengths}
    floor = verification_floor(geometry, chip, batch=batch, cached=cached, draft_tokens=draft_tokens, ranks=ranks)
    gain = round_speedup(tokens_per_round=tokens[draft_tokens], round_cost=costs[draft_tokens])
    least = break_even_acceptance(round_cost=costs[draft_tokens], draft_tokens=draft_tokens)
    best = best_draft_length(tokens=tokens, costs=costs)
    most = round_speedup(tokens_per_round=tokens[best], round_cost=costs[best]) if best else 1.0
    rows = (
        Row("Floor of a plain step", format_seconds(floor.plain_s)),
        Row("Floor of the step that checks the draft", format_seconds(floor.check_s)),
        Row("The check over the plain step", f"{significant(floor.cost, 3)}×"),
        Row("A round, in plain steps", significant(costs[draft_tokens], 3)),
        Row("Tokens of a round", significant(tokens[draft_tokens], 3)),
        Row("Speed-up between tokens", f"{significant(gain, 3)}×", keep=True),
        Row("Acceptance that breaks even", "none" if least is None else format_percent(least)),
        Row(f"Best draft, of up to {LONGEST} tokens", "none" if not best else counted(best, "token"), keep=True),
    )
    lines = (
        working(expected_tokens, acceptance=alpha, draft_tokens=draft_tokens).text,
        working(round_cost, draft_tokens=draft_tokens, draft_cost=share, verify_cost=checked(draft_tokens)).text,
        working(round_speedup, tokens_per_round=tokens[draft_tokens], round_cost=costs[draft_tokens]).text,
    )
    return Panel(rows, lines, _meaning(floor.multiplies, floor.check.tokens, gain, best, most), _LEFT_OUT)


def _meaning(multiplies: bool, tokens: int, gain: float, best: int, most: float) -> str:
    waits = "arithmetic" if multiplies else "memory"
    first = f"With {counted(tokens, 'token')} the step that checks waits for {waits}. "
    change = gain - 1
    if abs(change) < 0.005:
        verdict = "Speculation then changes next to nothing. "
    elif change > 0:
        verdict = f"Speculation then shortens the time between tokens to {format_percent(1 / gain)}. "
    else:
        verdict = f"Speculation then stretches the time between tokens to {format_percent(1 / gain)}. "
    if not best:
        return first + verdict + "No draft length does better than none."
    return first + verdict + f"The best draft length here, {best}, gives {significant(most, 3)}×."


_LEFT_OUT = (
    "Floors are not times: real steps take longer, and not by the same factor; with routed experts they are averages. "
    "Left out as well: whether model and drafter fit, drafts that get worse along the way, sampling, scheduling, "
    "communication between ranks, and prefill, which speculation does not touch."
)
