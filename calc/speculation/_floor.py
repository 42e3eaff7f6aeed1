"""The step that checks a draft, against a plain one, at their floors: why checking is nearly free, and until when."""

from __future__ import annotations

from dataclasses import dataclass

from calc.hardware import Accelerator
from calc.models import ModelGeometry
from calc.roofline import StepWork, floor_seconds, step_work
from calc.units import plain


@dataclass(frozen=True, slots=True)
class VerificationFloor:
    """Floors of two steps on one rank: one token for each sequence, and the draft with one token more.

    Attributes
    ----------
    plain, check : StepWork
        The work of both.
    peak, bandwidth : float
        Of the chip, FLOP/s and B/s.
    """

    plain: StepWork
    check: StepWork
    peak: float
    bandwidth: float

    def _seconds(self, work: StepWork) -> float:
        return floor_seconds(flop=work.flop, moved_bytes=work.moved_bytes(), peak=self.peak, bandwidth=self.bandwidth)

    @property
    def plain_s(self) -> float:
        """Least time of the plain step."""
        return self._seconds(self.plain)

    @property
    def check_s(self) -> float:
        """Least time of the step that checks."""
        return self._seconds(self.check)

    @property
    def cost(self) -> float:
        """The check's floor over the plain step's: at least 1."""
        return self.check_s / self.plain_s

    @property
    def multiplies(self) -> bool:
        """Whether the check waits for arithmetic rather than for memory."""
        return self.check.flop / self.peak > self.check.moved_bytes() / self.bandwidth


def verification_floor(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    batch: int,
    cached: int,
    draft_tokens: int,
    ranks: int = 1,
) -> VerificationFloor:
    """Floors of a plain decode step and of one that checks drafts, for a batch of equal sequences in bf16.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    batch : int
        Sequences that decode.
    cached : int
        Positions in the cache of each.
    draft_tokens : int
        Draft tokens of each.
    ranks : int
        Tensor-parallel ranks.

    Returns
    -------
    VerificationFloor

    Raises
    ------
    CalcError
        If a count is not a positive whole number, or the model's work can't be counted.

    Notes
    -----
    Floors, never a forecast, and so is their ratio only a guide: a kernel that is further from its floor at one
    size than at the other moves it either way. The drafter, sampling and communication are left out. The output
    layer sees every position of the draft. With routed experts both are averages over independent picks: a step can
    take less.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> model, chip = load("llama-3.1-70b"), accelerator("h100-sxm")
    >>> sizes = {"cached": 2048, "draft_tokens": 3, "ranks": 8}
    >>> [round(verification_floor(model, chip, batch=b, **sizes).cost, 2) for b in (1, 256)]
    [1.0, 1.61]
    """
    for name, count in (("batch", batch), ("cached", cached), ("draft_tokens", draft_tokens)):
        plain("verification_floor", name, count, "count>0")
    once, drafted = (
        step_work(model, sequences={(new, cached): batch}, ranks=ranks, head="every") for new in (1, draft_tokens + 1)
    )
    return VerificationFloor(once, drafted, peak=chip.peaks["bf16"].value, bandwidth=chip.bandwidth.value)
