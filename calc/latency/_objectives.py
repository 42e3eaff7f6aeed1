"""Limits that a good request keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields

from calc.latency._formulas import tpot_left_by_end_to_end
from calc.units import CalcError


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """Limits on one request, seconds. One that is None decides nothing.

    Attributes
    ----------
    ttft_s, tpot_s, e2e_s : float or None
        On time to first token, time per output token and end-to-end latency.
    gap_s : float or None
        On the longest gap. Few tools know it.

    Raises
    ------
    CalcError
        If no limit is set, or one is not above 0.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    gap_s: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not 0 < limit < float("inf"):
                raise CalcError(f"Objectives: {name} is {limit}, wanted seconds above 0, or None")
        if not self.limits:
            raise CalcError("Objectives: no limit is set; give at least one of ttft_s, tpot_s, e2e_s, gap_s")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def kept(self, **seen_s: float | None) -> bool | None:
        """Whether these latencies keep every limit; None where one that is limited is None itself.

        Examples
        --------
        >>> limits = Objectives(ttft_s=1, tpot_s=0.05)
        >>> limits.kept(ttft_s=0.4, tpot_s=0.06), limits.kept(ttft_s=0.4, tpot_s=None)
        (False, None)
        """
        values = [(seen_s[name], limit) for name, limit in self.limits.items()]
        if any(value is None for value, _ in values):
            return None
        return all(value <= limit for value, limit in values)

    def binding_tpot_s(self, *, output_tokens: float) -> float | None:
        """The limit on TPOT that answers of this length really face.

        Parameters
        ----------
        output_tokens : float
            Tokens of the answer.

        Returns
        -------
        float or None
            The smaller one of the limit set and of what the end-to-end limit leaves after a first token
            that just keeps its limit; None where neither is set.

        Examples
        --------
        >>> round(Objectives(ttft_s=0.1, tpot_s=0.05, e2e_s=0.79).binding_tpot_s(output_tokens=128), 5)
        0.00543
        """
        limits = [] if self.tpot_s is None else [self.tpot_s]
        if self.e2e_s is not None and self.ttft_s is not None and output_tokens > 1:
            room = max(self.e2e_s, self.ttft_s)  # a first token later than that leaves nothing
            limits.append(tpot_left_by_end_to_end(e2e_s=room, ttft_s=self.ttft_s, output_tokens=output_tokens))
        return min(limits, default=None)
