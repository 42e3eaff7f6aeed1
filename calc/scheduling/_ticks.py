"""Time in whole ticks, so that two ways to the same sum give the same sum."""

TICKS_PER_SECOND = 10**15  # a femtosecond: far below what any coefficient of a step time is known to


def ticks(seconds: float) -> int:
    """Whole ticks nearest to a time in seconds."""
    return round(seconds * TICKS_PER_SECOND)


def seconds(ticks: int) -> float:
    """Seconds of a number of ticks."""
    return ticks / TICKS_PER_SECOND
