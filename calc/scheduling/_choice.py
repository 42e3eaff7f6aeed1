"""Choose a setting from measured waits and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from calc.scheduling._requests import SchedulingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was measured under one setting of an engine.

    Attributes
    ----------
    name : str
        The setting.
    waits_s : tuple of float
        Wait for the first token of the long prompt, one for each repeat.
    gaps_s : tuple of float
        Longest gap of the streams beside it, one for each repeat.
    """

    name: str
    waits_s: tuple[float, ...]
    gaps_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.waits_s or len(self.waits_s) != len(self.gaps_s):
            raise SchedulingError(f"setting {self.name}: wanted a wait and a gap of each repeat, one at least")

    @property
    def wait_s(self) -> float:
        """Median wait."""
        return median(self.waits_s)

    @property
    def gap_s(self) -> float:
        """Median of the longest gaps."""
        return median(self.gaps_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The setting that an objective picks, and those it can't tell from the quickest.

    Attributes
    ----------
    chosen : Setting or None
        None where no setting keeps the limit.
    quickest : Setting or None
        The allowed one with the least median wait.
    allowed : tuple of Setting
        Those that keep the limit in every repeat.
    alike : tuple of Setting
        Those of them whose waits overlap with the quickest one's, itself included.
    """

    chosen: Setting | None
    quickest: Setting | None
    allowed: tuple[Setting, ...]
    alike: tuple[Setting, ...]


def choose(settings: Sequence[Setting], *, gap_limit_s: float) -> Choice:
    """Keep the longest gap under a limit, then make the first token come soonest.

    Parameters
    ----------
    settings : sequence of Setting
        What was measured.
    gap_limit_s : float
        The longest gap that a reader shall see, in every repeat.

    Returns
    -------
    Choice
        Where the repeats of two settings overlap, their waits are not told apart. Of those that can't be told from
        the quickest, the one with the shortest gap is chosen.

    Raises
    ------
    SchedulingError
        If there is no setting, or the limit is not above 0.

    Examples
    --------
    >>> small = Setting(name="512", waits_s=(2.0, 2.1, 2.2), gaps_s=(0.1, 0.1, 0.2))
    >>> middle = Setting(name="1024", waits_s=(1.9, 2.0, 2.1), gaps_s=(0.2, 0.3, 0.3))
    >>> large = Setting(name="4096", waits_s=(1.2, 1.3, 1.4), gaps_s=(0.8, 0.9, 0.9))
    >>> choose((small, middle, large), gap_limit_s=0.5).chosen.name
    '512'
    >>> choose((small, middle, large), gap_limit_s=1.0).chosen.name
    '4096'
    """
    if not settings:
        raise SchedulingError("nothing to choose from: give the settings that were measured")
    if not 0 < gap_limit_s < float("inf"):
        raise SchedulingError(f"a gap limit of {gap_limit_s!r} s allows nothing: give seconds above 0")
    allowed = tuple(s for s in settings if max(s.gaps_s) <= gap_limit_s)
    if not allowed:
        return Choice(chosen=None, quickest=None, allowed=(), alike=())
    quickest = min(allowed, key=lambda s: s.wait_s)
    alike = tuple(s for s in allowed if min(s.waits_s) <= max(quickest.waits_s))
    chosen = min(alike, key=lambda s: s.gap_s)
    return Choice(chosen=chosen, quickest=quickest, allowed=allowed, alike=alike)


def undominated(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The Pareto front: settings that no other beats in one median without losing in the other.

    Parameters
    ----------
    settings : sequence of Setting
        What was measured.

    Returns
    -------
    tuple of Setting
        By rising wait.

    Examples
    --------
    >>> a = Setting(name="a", waits_s=(1,), gaps_s=(3,))
    >>> b = Setting(name="b", waits_s=(2,), gaps_s=(2,))
    >>> c = Setting(name="c", waits_s=(3,), gaps_s=(2.5,))
    >>> [s.name for s in undominated((c, b, a))]
    ['a', 'b']
    """

    def beaten(one: Setting) -> bool:
        mine = one.wait_s, one.gap_s
        return any(o.wait_s <= mine[0] and o.gap_s <= mine[1] and (o.wait_s, o.gap_s) != mine for o in settings)

    return tuple(sorted((s for s in settings if not beaten(s)), key=lambda s: s.wait_s))
