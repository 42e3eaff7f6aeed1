"""What a scheduler is given: requests, and the limits it keeps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from calc.units import CalcError

POLICIES = ("fcfs", "priority")
FOREVER_S = 1e15  # thirty million years


class SchedulingError(CalcError):
    """A workload that can't be scheduled, or a scheduler that can't be built."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, with the length of its response known to the simulator and not to the scheduler.

    Attributes
    ----------
    name : hashable
        Distinct from every other.
    prompt : int or sequence of int
        Prompt tokens: how many, or which. Requests can share a prefix only if it is known which.
    output : int
        Tokens the response will have, at least 1.
    arrival_s : float
        When it arrives.
    priority : int
        Under the priority policy, smaller is served earlier; ties go by arrival.
    adapter, salt : str or None
        LoRA adapter, and cache salt: prefixes are shared only where both are the same.
    """

    name: Hashable
    prompt: int | Sequence[int]
    output: int
    arrival_s: float = 0.0
    priority: int = 0
    adapter: str | None = None
    salt: str | None = None

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens."""
        if isinstance(self.prompt, int):
            return self.prompt
        try:
            return len(self.prompt)
        except TypeError:
            raise SchedulingError(
                f"request {self.name!r}: prompt is {self.prompt!r}, wanted an int or tokens"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The limits a scheduler keeps. In brackets the name in vLLM 0.32.

    Attributes
    ----------
    blocks : int
        Blocks in the pool, block 0 set aside (``num_gpu_blocks``).
    block_tokens : int
        Positions in a block (``block_size``).
    token_budget : int
        Tokens in one step (``max_num_batched_tokens``).
    sequences : int
        Sequences that run at once (``max_num_seqs``).
    chunked_prefill : bool
        Whether a prompt may be cut where the budget ends (``enable_chunked_prefill``).
    long_prefill_threshold : int
        Most prompt tokens of one request in one step while others are there; 0: no such limit
        (``long_prefill_token_threshold``).
    adaptive_threshold : bool
        Raise the threshold to a fair share of the budget (``long_prefill_token_threshold_adaptive``).
    policy : str
        "fcfs" or "priority" (``scheduling_policy``).
    prefix_caching : bool
        Keep full blocks findable after use (``enable_prefix_caching``).
    reserve_prompt : bool
        Admit only if all known tokens would fit, not just the first chunk (``scheduler_reserve_full_isl``).
    watermark : float
        Share of the blocks kept free when admitting beside others (``watermark``).
    max_positions : int
        Longest sequence, prompt and response (``max_model_len``).
    draft_tokens : int
        Speculative tokens verified in each decode step (``num_speculative_tokens``).
    draft_slots, draft_rows : int
        Cache slots a drafter writes beyond them, and input rows it adds to each request.
    dropped_blocks : int
        Blocks given up at the end of a prefix hit: 1 for a drafter that reads hidden states.
    adapters : int or None
        LoRA adapters in one step (``max_loras``); None: no limit.
    """

    blocks: int
    block_tokens: int = 16
    token_budget: int = 2048
    sequences: int = 256
    chunked_prefill: bool = True
    long_prefill_threshold: int = 0
    adaptive_threshold: bool = False
    policy: str = "fcfs"
    prefix_caching: bool = False
    reserve_prompt: bool = True
    watermark: float = 0.0
    max_positions: int = 1 << 40
    draft_tokens: int = 0
    draft_slots: int = 0
    draft_rows: int = 0
    dropped_blocks: int = 0
    adapters: int | None = None

    def __post_init__(self) -> None:
        least = {"blocks": 2, "block_tokens": 1, "token_budget": 1, "sequences": 1, "max_positions": 2}
        least |= dict.fromkeys(
            ("long_prefill_threshold", "draft_tokens", "draft_slots", "draft_rows", "dropped_blocks"), 0
        )
        for name, minimum in least.items():
            _whole("SchedulerConfig", name, getattr(self, name), minimum)
        if self.adapters is not None:
            _whole("SchedulerConfig", "adapters", self.adapters, 1)
        if self.policy not in POLICIES:
            raise SchedulingError(f"SchedulerConfig: policy is {self.policy!r}, wanted {' or '.join(POLICIES)}")
        if not within(self.watermark, 1):
            raise SchedulingError(f"SchedulerConfig: watermark is {self.watermark!r}, wanted 0 to below 1")
        if self.draft_rows >= self.token_budget:
            raise SchedulingError("SchedulerConfig: draft_rows fill the token_budget: raise it")
        if 0 < self.long_prefill_threshold <= self.draft_tokens:
            raise SchedulingError(
                f"SchedulerConfig: long_prefill_threshold {self.long_prefill_threshold} would cut a decode step "
                f"of 1 + {self.draft_tokens} tokens: raise it above {self.draft_tokens} or set it to 0"
            )

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept free when admitting beside running sequences."""
        return int(self.watermark * self.blocks)

    @property
    def speculates(self) -> bool:
        """Whether decode steps carry more than one token."""
        return bool(self.draft_tokens or self.draft_slots or self.draft_rows)


def check(request: Request, config: SchedulerConfig) -> None:
    """Refuse a request that no engine would take.

    Raises
    ------
    SchedulingError
        If a length is not a positive whole number, the arrival not a time, or the prompt leaves no room
        for a response.
    """
    where, prompt = f"request {request.name!r}", request.prompt_tokens
    _whole(where, "prompt", prompt, 1)
    _whole(where, "output", request.output, 1)
    if not within(request.arrival_s, FOREVER_S):
        raise SchedulingError(
            f"{where}: arrival_s is {request.arrival_s!r}, wanted seconds from 0 to below {FOREVER_S:g}"
        )
    if prompt >= config.max_positions:
        raise SchedulingError(f"{where}: {prompt} prompt tokens leave no room below {config.max_positions} positions")


def check_fits(request: Request, config: SchedulerConfig) -> None:
    """Refuse a request that an engine would take, and never finish.

    Raises
    ------
    SchedulingError
        As `check`; also if the whole sequence doesn't fit in the pool, or its prompt must be cut and may not.
    """
    check(request, config)
    where, prompt = f"request {request.name!r}", request.prompt_tokens
    written = min(prompt + request.output, config.max_positions) - 1  # never the last token
    positions = min(written + config.draft_slots, config.max_positions)
    needed, usable = -(-positions // config.block_tokens), config.blocks - 1
    if needed > usable:
        raise SchedulingError(f"{where} needs {needed} blocks at its end, the pool has {usable}: it would never finish")
    first = min(prompt, config.long_prefill_threshold or prompt)
    if not config.chunked_prefill and first > config.token_budget - config.draft_rows:
        raise SchedulingError(
            f"{where}: {first} prompt tokens exceed the budget of {config.token_budget}, and chunked_prefill is off"
        )


def stuck(waiting: int) -> SchedulingError:
    """The error for a scheduler that nothing can move any more."""
    return SchedulingError(
        f"{waiting} requests wait and none can ever be admitted: give the pool more blocks, or, where "
        "chunked_prefill is off, a token_budget that holds a preempted sequence"
    )


def within(value: object, limit: float) -> bool:
    """Whether it is a number of at least 0 and below a limit."""
    try:
        return not isinstance(value, bool) and bool(0 <= value < limit)
    except (TypeError, ValueError):
        return False


def _whole(where: str, name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SchedulingError(f"{where}: {name} is {value!r}, wanted a whole number of at least {least}")
