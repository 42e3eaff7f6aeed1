"""The live panel of the chapter on chunked prefill."""

from __future__ import annotations

from calc.hardware import Accelerator, accelerator
from calc.kv_cache import layout
from calc.models import ModelGeometry, load
from calc.panel import Panel, Row
from calc.roofline import StepFloor, step_floor, step_work
from calc.scheduling._chunks import chunk, chunks, last_chunk, reread_bytes, reread_positions
from calc.units import CalcError, counted, format_bytes, format_count, format_percent, format_seconds, plain
from calc.working import working

MOST_STEPS = 4096  # that a panel goes through


def chunk_panel(
    *, model: str, chip: str, ranks: int, element: str, prompt: int, budget: int, decoding: int, context: int
) -> Panel:
    """Panel of the chapter on chunked prefill: how a prompt is cut, what that costs, and the least times.

    Parameters
    ----------
    model, chip : str
        Slugs of the catalogues.
    ranks : int
        Tensor-parallel ranks.
    element : str
        Type of the weights and of the cache.
    prompt : int
        Tokens of the long prompt.
    budget : int
        Tokens in a step.
    decoding, context : int
        Requests that decode beside it, and the positions that each has in the cache.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    prompt = int(plain("chunk_panel", "prompt", prompt, "count>0"))
    budget = int(plain("chunk_panel", "budget", budget, "count>0"))
    decoding = int(plain("chunk_panel", "decoding", decoding, "count"))
    context = int(plain("chunk_panel", "context", context, "count"))
    if decoding >= budget:
        raise CalcError(f"budget is {format_count(budget)}, and decoding takes all of it: raise budget, lower decoding")
    geometry, gpu = load(model), accelerator(chip)
    room = chunk(token_budget=budget, decode_tokens=decoding)
    steps = chunks(prompt=prompt, chunk=room)
    if steps > MOST_STEPS:
        cut = format_count(steps)
        raise CalcError(f"budget is {format_count(budget)}, which cuts prompt into {cut} steps: raise it")
    final = last_chunk(prompt=prompt, chunk=room, chunks=steps)
    again = reread_positions(chunk=room, chunks=steps)
    cache = layout(geometry, element=element)
    load_ = {"ranks": ranks, "element": element, "decoding": decoding, "context": context}
    floors = prompt_floors(geometry, gpu, prompt=prompt, chunk=room, **load_)
    (whole,) = prompt_floors(geometry, gpu, prompt=prompt, chunk=prompt, **load_)
    alone = load_ | {"decoding": 0}  # cut or not, the others would get their tokens; compare the prompt without them
    bare = sum(floor.seconds for floor in prompt_floors(geometry, gpu, prompt=prompt, chunk=room, **alone))
    (bare_whole,) = prompt_floors(geometry, gpu, prompt=prompt, chunk=prompt, **alone)
    longest = max(floor.seconds for floor in floors)
    total = sum(floor.seconds for floor in floors)
    bound = sum(floor.bound == "arithmetic" for floor in floors)
    rows = [
        Row("Prompt tokens in a step", format_count(min(room, prompt)), keep=True),
        Row("Steps until its first output token", format_count(steps)),
        Row("Prompt tokens in the last of them", format_count(final)),
        Row("Cached positions that its chunks read", format_count(again)),
    ]
    if not cache.has_windows:
        size = reread_bytes(bytes_per_position=cache.bytes_per_position, reread_positions=again)
        rows.append(Row("Bytes of them, all GPUs together", format_bytes(size)))
    rows += [
        Row("Least time of the longest step", format_seconds(longest), keep=True),
        Row("Least time of all its steps", format_seconds(total)),
        Row("Least time of one step with all of it", format_seconds(whole.seconds)),
        Row("Steps that wait for arithmetic", f"{format_count(bound)} of {format_count(steps)}"),
    ]
    lines = [
        working(chunk, token_budget=budget, decode_tokens=decoding).text,
        working(chunks, prompt=prompt, chunk=room).text,
        working(last_chunk, prompt=prompt, chunk=room, chunks=steps).text,
        working(reread_positions, chunk=room, chunks=steps).text,
    ]
    meaning = _meaning(steps, longest, bare, bare_whole.seconds, decoding)
    if geometry.max_positions and max(prompt, context if decoding else 0) > geometry.max_positions:
        meaning += f" {geometry.name} was made for {counted(geometry.max_positions, 'position')}; this is more."
    return Panel(tuple(rows), tuple(lines), meaning, _LEFT_OUT)


def prompt_floors(
    model: ModelGeometry,
    chip: Accelerator,
    *,
    prompt: int,
    chunk: int,
    ranks: int,
    element: str,
    decoding: int,
    context: int,
    multiplies: str = "bf16",
) -> list[StepFloor]:
    """Least times of the steps that compute a prompt, others decoding beside it.

    Parameters
    ----------
    model : ModelGeometry
    chip : Accelerator
    prompt, chunk : int
        Prompt tokens, and those in a step.
    ranks : int
        Tensor-parallel ranks.
    element : str
        Type of the weights and of the cache.
    decoding, context : int
        Requests that decode in every step, and the positions of each before the first one.
    multiplies : str
        Type in which matrices are multiplied.

    Returns
    -------
    list of StepFloor
        One for each step, in order.

    Raises
    ------
    CalcError
        As `calc.roofline.step_work` and `calc.roofline.step_floor`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> floors = prompt_floors(load("llama-3.1-70b"), accelerator("h100-sxm"), prompt=4090, chunk=2045,
    ...     ranks=8, element="bf16", decoding=3, context=100)
    >>> [(floor.work.tokens, floor.bound) for floor in floors]
    [(2048, 'arithmetic'), (2048, 'arithmetic')]
    """
    floors = []
    for done, start in enumerate(range(0, prompt, chunk)):
        sequences = {(min(chunk, prompt - start), start): 1}
        if decoding:
            decodes = (1, context + done)
            sequences[decodes] = sequences.get(decodes, 0) + decoding
        work = step_work(model, sequences=sequences, element=element, cache_element=element, ranks=ranks)
        floors.append(step_floor(work, chip, multiplies=multiplies))
    return floors


def _meaning(steps: int, longest: float, bare: float, whole: float, decoding: int) -> str:
    others = (
        "Nobody decodes beside it, so cutting it only adds steps."
        if not decoding
        else f"The others get a token from each step, the slowest of which takes at least {format_seconds(longest)}."
    )
    if steps == 1:
        alone = "Nobody decodes beside it." if not decoding else "The others wait for all of it in a single gap."
        return f"The prompt fits in one step and reads nothing again. {alone}"
    more = bare / whole - 1
    without = "Without them the" if decoding else "The"
    if more < 5e-4:
        return f"{others} {without} floor of its steps is that of one step, within 0.1%: on paper the cut is free."
    return f"{others} {without} floor of its steps is {format_percent(more, 2)} above that of one step."


_LEFT_OUT = (
    "Everything that a floor leaves out: launches, the host, communication between GPUs, kernels below the peak, and a "
    "prefix that is read once for each tile of a chunk. Other prompts that want room in the same steps. Whether it all "
    "fits in memory. Matrices are multiplied in bf16."
)
