"""Times of each request, by the quickest way that gives the same ones."""

from __future__ import annotations

from collections.abc import Iterable

from calc.scheduling._clock import StepTimeLike
from calc.scheduling._core import Sampler
from calc.scheduling._leap import NeedsBlocks, leap
from calc.scheduling._ledger import Times
from calc.scheduling._requests import Request, SchedulerConfig
from calc.scheduling._run import run


def simulate(
    requests: Iterable[Request], config: SchedulerConfig, step_time: StepTimeLike, sampler: Sampler | None = None
) -> Times:
    """Times of each request, without a ledger.

    Parameters
    ----------
    requests, config, step_time, sampler
        As in `run`.

    Returns
    -------
    Times
        Those of ``run(...).times()``, to the last tick.

    Raises
    ------
    SchedulingError
        As in `run`.

    Notes
    -----
    Work grows with the number of requests and not with their tokens, as long as counting blocks
    suffices. Where it matters which block is whose, it goes step by step like `run`: known prompts with
    prefix caching, speculation, a limit on adapters, a step time without ``lines``, and preemption under
    the priority policy or with prefix caching.

    Examples
    --------
    >>> from calc.scheduling import Affine
    >>> requests = [Request(i, prompt=1000, output=500, arrival_s=i / 4) for i in range(100)]
    >>> model = Affine(base_s=0.02, prefill_token_s=5e-5, decode_sequence_s=1e-4, cached_token_s=1e-8)
    >>> times = simulate(requests, SchedulerConfig(blocks=5000), model)
    >>> times == run(requests, SchedulerConfig(blocks=5000), model).times()
    True
    """
    requests = list(requests)
    adapters = config.adapters is not None and any(request.adapter for request in requests)
    shares = config.prefix_caching and not all(isinstance(request.prompt, int) for request in requests)
    if hasattr(step_time, "lines") and not (sampler or config.speculates or adapters or shares):
        try:
            return leap(requests, config, step_time)
        except NeedsBlocks:
            pass
    return run(requests, config, step_time, sampler).times()
