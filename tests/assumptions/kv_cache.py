"""What a reader of memory/kv_cache might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import kv_cache, models
from calc.notebook import times
from calc.units import UNITS, format_bytes

from . import Altered


@st.composite
def kv_cache_requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request part-way through its answer, on any model, element type and group of GPUs."""
    output = draw(st.integers(1, 32_768))
    return {
        "model_slug": draw(st.sampled_from(models.catalogue())),
        "element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "prompt_tokens": draw(st.integers(1, 131_072)),
        "generated_tokens": draw(st.integers(1, output)),
        "output_tokens": output,
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8, 16])),
        "pool_gib_per_rank": draw(st.one_of(st.integers(1, 192), st.floats(0.5, 192))),
    }


def rules_of_admission(run: Run) -> None:
    """What is said of the two admission rules is what happens when the requests write on."""
    n = run.namespace
    layout = kv_cache.layout(n["model"], element=n["element"], ranks=n["tensor_parallel_ranks"])
    pool = n["pool_gib_per_rank"] * UNITS["GiB"].factor

    def held(requests: int, more: int) -> int:
        generated = n["generated_tokens"] + more
        return requests * kv_cache.present_bytes(layout, prompt=n["prompt_tokens"], generated=generated)

    left = n["output_tokens"] - n["generated_tokens"]
    if said := re.search(r"Admitting ([\d,]+) requests? fills the pool after ([\d,]+) more tokens?", run.prose):
        admitted, more = (int(number.replace(",", "")) for number in said.groups())
        assert held(admitted, more - 1) <= pool < held(admitted, more)
        safe = int(re.search(r"Admitting ([\d,]+) never does", run.prose)[1].replace(",", ""))
        assert held(safe, left) <= pool < held(safe + 1, left)
    else:
        fit = int(re.search(r"both rules admit what can finish: ([\d,]+) request", run.prose)[1].replace(",", ""))
        assert held(fit, left) <= pool < held(fit + 1, 0)


def counting_query_heads(run: Run) -> None:
    """It never gives less than the cache holds, and is off by the factor that the text names."""
    (text,) = [text for _, text in run.read if text.startswith("**Counting query heads**")]
    assert "too little" not in text
    if "query heads over KV heads" in text:
        mixers = [mixer for mixer, _ in run.namespace["model"].kinds()]
        assert all(mixer.kind in {"full", "window"} for mixer in mixers), "a latent has no KV heads"
        assert any(times(mixer.query_heads, mixer.kv_heads) in text for mixer in mixers), text


def the_other_road(run: Run) -> None:
    """Room to finish is the positions left times the bytes of one, or the text says that full windows need no more."""
    n = run.namespace
    layout = kv_cache.layout(n["model"], element=n["element"])
    progress = {"prompt": n["prompt_tokens"], "generated": n["generated_tokens"]}
    room = kv_cache.room_to_finish_bytes(layout, **progress, output=n["output_tokens"])
    straight = (n["output_tokens"] - n["generated_tokens"]) * layout.bytes_per_position
    assert f"each are {format_bytes(straight)}" in run.prose
    assert ("full windows need no more" in run.prose) == (room < straight)


ALTERED = Altered(
    sensible=kv_cache_requests(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "deepseek-v4-flash"},
        {"model_slug": "minimax-m3"},
        {"model_slug": "no/such/config.json"},
        {"element": "bf15"},
        {"prompt_tokens": 0},
        {"prompt_tokens": 2048.5},
        {"prompt_tokens": "2048"},
        {"generated_tokens": 1025, "output_tokens": 1024},
        {"output_tokens": -1},
        {"tensor_parallel_ranks": 0},
        {"tensor_parallel_ranks": 3},
        {"pool_gib_per_rank": -1},
        {"pool_gib_per_rank": float("nan")},
    ),
    claims=(rules_of_admission, counting_query_heads, the_other_road),
)
