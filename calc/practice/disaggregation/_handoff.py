"""Problems about the handoff: pieces, rates, what a prompt hides, what a first token waits for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Numbers

from calc import disaggregation as d
from calc import kv_cache, models
from calc.practice._problem import Problem
from calc.practice.disaggregation._model import FIRST, HANDOFF, OVERLAP
from calc.units import format_bytes, format_decimal, format_seconds
from calc.working import Working, working

GBIT = 1e9 / 8


def _blocks(n: Numbers) -> int:
    return kv_cache.blocks(positions=n.prompt, block_tokens=n.block)


def _layers(n: Numbers) -> int:
    return sum(count for mixer, count in models.load(n.model).kinds() if mixer is not None)


def _pieces(n: Numbers, tensors: int = 2) -> int:
    return d.descriptors(blocks=_blocks(n), layers=_layers(n), tensors=tensors)


pieces = Problem(
    id="disaggregation/pieces",
    title="How many pieces",
    level=1,
    step=HANDOFF,
    printed={"model": "llama-3.1-8b", "prompt": 3000, "block": 16},
    choices={
        "model": ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b"),
        "prompt": (1500, 3000, 7000, 20_000),
        "block": (16, 32, 64),
    },
    ask=lambda n: (
        f"{models.load(n.model).name} keeps keys and values in two tensors of each of its {_layers(n)} layers, in "
        f"blocks of {n.block} tokens. No two blocks of a {n.prompt:,}-token prompt lie side by side. How many "
        "descriptors does one GPU post to hand it over?"
    ),
    unit="descriptors",
    exact=True,
    answer=_pieces,
    mistakes={
        "forgets that keys and values lie apart": lambda n: _pieces(n, tensors=1),
        "counts one for each token": lambda n: d.descriptors(blocks=n.prompt, layers=_layers(n), tensors=2),
        "counts one for each block": _blocks,
        "counts one for each layer": lambda n: 2 * _layers(n),
        "leaves out the last, partly filled block": lambda n: (
            _pieces(n) - 2 * _layers(n) if n.prompt % n.block else None
        ),
    },
    hint="Each block is one piece in each tensor of each layer. A partly filled block is a piece too.",
    solution=lambda n: [
        working(kv_cache.blocks, positions=n.prompt, block_tokens=n.block),
        working(d.descriptors, blocks=_blocks(n), layers=_layers(n), tensors=2),
    ],
)


fragment = Problem(
    id="disaggregation/fragment",
    title="How small is a piece",
    level=1,
    step=HANDOFF,
    printed={"gb": 3.2, "thousand": 80},
    choices={"gb": (1.2, 2.4, 3.2, 5.0), "thousand": (20, 50, 80, 100)},  # pieces of whole bytes
    ask=lambda n: (
        f"A transfer moves {n.gb:g} GB from one GPU in {n.thousand},000 descriptors. How large is the piece that a "
        "descriptor names?"
    ),
    answer=lambda n: d.fragment_bytes(cache_bytes=n.gb * 1e9, descriptors=n.thousand * 1000),
    mistakes={
        "reads the thousand as 1,024": lambda n: n.gb * 1e9 / (n.thousand * 1024),
        "is off by a thousand": lambda n: n.gb * 1e6 / (n.thousand * 1000),
    },
    hint="Each descriptor names one piece, and all are equally large. GB are decimal, KiB are not.",
    solution=lambda n: [working(d.fragment_bytes, cache_bytes=n.gb * 1e9, descriptors=n.thousand * 1000)],
)


def _move(n: Numbers, **changed: float) -> float:
    given = {"cache_bytes": n.mb * 1e6, "wire_rate": n.gbit * GBIT, "descriptors": n.pieces, "descriptor_s": n.us / 1e6}
    return d.transfer_seconds(**given | changed)


def _effective(n: Numbers, **changed: float) -> float:
    return d.effective_rate(cache_bytes=n.mb * 1e6, transfer_s=_move(n, **changed))


effective = Problem(
    id="disaggregation/effective",
    title="What the link delivers",
    level=2,
    step=HANDOFF,
    printed={"mb": 160, "gbit": 200, "pieces": 16_000, "us": 2.0},
    choices={
        "mb": (80, 160, 320),
        "gbit": (100, 200, 400),
        "pieces": (4000, 8000, 16_000, 30_000),
        "us": (0.5, 1.0, 2.0, 3.0),
    },
    ask=lambda n: (
        f"A GPU hands over {n.mb} MB in {n.pieces:,} pieces. Its link reaches {n.gbit} Gbit/s with large pieces, and "
        f"posting a descriptor takes {n.us:g} µs, before anything moves. What rate does the transfer reach in all?"
    ),
    unit="B/s",
    answer=_effective,
    mistakes={
        "takes the wire alone": lambda n: n.gbit * GBIT,
        "takes posting alone": lambda n: n.mb * 1e6 / (n.pieces * n.us / 1e6),
        "reads Gbit/s as GB/s": lambda n: _effective(n, wire_rate=n.gbit * 1e9),
        "hides posting behind the wire": lambda n: min(n.gbit * GBIT, n.mb * 1e12 / (n.pieces * n.us)),
    },
    hint="The time first: bytes over the rate, and the descriptors on top. Eight bits are a byte.",
    solution=lambda n: [
        working(d.transfer_seconds, cache_bytes=n.mb * 1e6, wire_rate=n.gbit * GBIT, descriptors=n.pieces,
                descriptor_s=n.us / 1e6),
        working(d.effective_rate, cache_bytes=n.mb * 1e6, transfer_s=_move(n)),
        f"That is {format_decimal(_effective(n), 'B/s')}; the wire alone would give "
        f"{format_decimal(n.gbit * GBIT, 'B/s')}.",
    ],
)  # fmt: skip


def _exposed(n: Numbers) -> float:
    return d.exposed_seconds(transfer_s=n.move / 1000, prompt_s=n.prompt / 1000, layers=n.layers)


def _hidden(n: Numbers) -> list[str | Working]:
    whole = working(d.exposed_seconds, transfer_s=n.move / 1000, prompt_s=n.prompt / 1000, layers=n.layers)
    left = f"{format_seconds(_exposed(n))} are left; without overlap it would be {format_seconds(n.move / 1000)}."
    moving, computing = (format_seconds(ms / 1000 / n.layers) for ms in (n.move, n.prompt))
    if n.move > n.prompt:
        told = f"A layer is moved in {moving} and computed in {computing}: the wire is behind, and busy to the end:"
        return [told, whole, left]
    told = f"A layer is moved in {moving} and computed in {computing}: the wire keeps up, and the last layer is left:"
    return [told, replace(whole, steps=whole.steps[:1]), left]


hidden = Problem(
    id="disaggregation/hidden",
    title="What the prompt hides",
    level=2,
    step=OVERLAP,
    printed={"move": 240, "prompt": 180, "layers": 60},
    choices={"move": (60, 120, 240, 400), "prompt": (100, 180, 300), "layers": (32, 60, 80)},
    possible=lambda n: abs(n.move - n.prompt) > 20,
    ask=lambda n: (
        f"A prompt is computed in {n.prompt} ms by {n.layers} equal layers. Moving its whole cache takes {n.move} ms. "
        "Each layer is sent as soon as it is computed. How long after the last layer is the cache in place?"
    ),
    unit="s",
    answer=_exposed,
    mistakes={
        "waits for the whole prompt": lambda n: n.move / 1000,
        "hides the whole transfer that fits beside the prompt": lambda n: max(n.move - n.prompt, 0) / 1000,
        "takes one layer's transfer in any case": lambda n: n.move / 1000 / n.layers,
        "gives the time from the start of the prompt": lambda n: n.prompt / 1000 + _exposed(n),
    },
    hint="Two cases: the wire keeps up, and only the last layer is left; or it doesn't, and it is busy from the first "
    "layer on.",
    solution=_hidden,
)

_PARTS = ("queued", "prompt", "exposed", "wait", "step", "out")


def _first(n: Numbers, **changed: float) -> float:
    parts = {name: getattr(n, name) / 1000 for name in _PARTS} | changed
    names = ("queued_s", "prompt_s", "exposed_s", "decode_wait_s", "step_s", "out_s")
    return d.handed_first_token(**dict(zip(names, (parts[name] for name in _PARTS), strict=True)))


first_token = Problem(
    id="disaggregation/first-token",
    title="A first token that changes workers",
    level=2,
    step=FIRST,
    printed={"queued": 55, "prompt": 190, "exposed": 42, "wait": 35, "step": 18, "out": 3},
    choices={
        "queued": (20, 55, 90),
        "prompt": (130, 190, 260),
        "exposed": (25, 42, 80),
        "wait": (12, 35, 70),
        "step": (14, 18, 25),
        "out": (3, 6),
    },
    ask=lambda n: (
        f"A request waits {n.queued} ms for a prefill worker, which computes it in {n.prompt} ms. {n.exposed} ms later "
        f"its cache is on a decode worker. There it waits {n.wait} ms for a step, and the step takes {n.step} ms. "
        f"Turning a token into text and sending it takes {n.out} ms. The decode worker sends every token. What is the "
        "time to first token?"
    ),
    unit="s",
    answer=_first,
    mistakes={
        "stops at the end of the prompt": lambda n: _first(n, exposed=0, wait=0, step=0),
        "leaves out the wait on the decode worker": lambda n: _first(n, wait=0),
        "leaves out the transfer": lambda n: _first(n, exposed=0),
        "leaves out the wait there and counts the sending twice": lambda n: _first(n, wait=0, out=2 * n.out / 1000),
        "computes the prompt again on the decode worker": lambda n: _first(n, step=(n.step + n.prompt) / 1000),
    },
    hint="Six parts, one after the other, each once.",
    solution=lambda n: [
        working(d.handed_first_token, queued_s=n.queued / 1000, prompt_s=n.prompt / 1000, exposed_s=n.exposed / 1000,
                decode_wait_s=n.wait / 1000, step_s=n.step / 1000, out_s=n.out / 1000),
    ],
)  # fmt: skip


def _heads(n: Numbers) -> models.FullAttention:
    return models.load(n.model).kinds()[0][0]


def _cache(n: Numbers) -> float:
    layers, heads = _layers(n), _heads(n)
    per = kv_cache.bytes_per_position(layers=layers, kv_heads=heads.kv_heads, head_dim=heads.key_dim, element_bytes=2)
    return kv_cache.sequence_bytes(bytes_per_position=per, positions=n.prompt)


full_link = Problem(
    id="disaggregation/full-link",
    title="When the link is full",
    level=2,
    step=HANDOFF,
    printed={"model": "llama-3.1-8b", "prompt": 6000, "gbit": 100},
    choices={
        "model": ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b"),
        "prompt": (2000, 6000, 16_000),
        "gbit": (25, 100, 200),
    },
    ask=lambda n: (
        f"{models.load(n.model).name} has {_layers(n)} layers with {_heads(n).kv_heads} KV heads of "
        f"{_heads(n).key_dim}. A prefill worker with it in 16 bits hands over prompts of {n.prompt:,} tokens "
        f"through one link of {n.gbit} Gbit/s. How many requests a second fill it, if it reaches its nominal speed?"
    ),
    unit="requests/s",
    answer=lambda n: d.link_requests(wire_rate=n.gbit * GBIT, cache_bytes=_cache(n)),
    mistakes={
        "reads Gbit/s as GB/s": lambda n: n.gbit * 1e9 / _cache(n),
        "leaves out the values": lambda n: 2 * n.gbit * GBIT / _cache(n),
        "takes one layer for all": lambda n: _layers(n) * n.gbit * GBIT / _cache(n),
    },
    hint="Cache bytes of one prompt, then how often they fit through the link in a second.",
    solution=lambda n: [
        f"A prompt leaves {format_bytes(_cache(n))}, that is {format_decimal(_cache(n), 'B')}.",
        working(d.link_requests, wire_rate=n.gbit * GBIT, cache_bytes=_cache(n)),
    ],
)


def _reached(n: Numbers) -> float:
    """PFLOP/s of all the GPUs."""
    return float(f"{n.gpus * n.peak * n.percent / 100:.12g}")


def _even(n: Numbers, **changed: float) -> float:
    given = {
        "cache_bytes": n.mb * 1e6,
        "compute_rate": _reached(n) * 1e15,
        "prompt_flop": n.pflop * 1e15,
    }
    return d.break_even_rate(**given | changed)


break_even = Problem(
    id="disaggregation/break-even",
    title="Move it or compute it again",
    level=3,
    step=OVERLAP,
    printed={"mb": 2600, "gpus": 4, "peak": 0.9, "percent": 40, "pflop": 1.2},
    choices={  # all of it at least a PFLOP or a PFLOP/s, so that one unit will do
        "mb": (1300, 2600, 5200),
        "gpus": (4, 8),
        "peak": (0.9, 2.25),
        "percent": (30, 40, 60),
        "pflop": (1.2, 2.4, 6.0),
    },
    ask=lambda n: (
        f"The decode worker could compute a prompt itself. That takes {n.pflop:g} PFLOP, and its {n.gpus} GPUs of "
        f"{n.peak:g} PFLOP/s reach {n.percent}% of their peak. The prompt's cache is {n.mb:,} MB. Above what rate is "
        "moving it quicker?"
    ),
    unit="B/s",
    answer=_even,
    mistakes={
        "lets the GPUs reach their peak": lambda n: _even(n, compute_rate=n.gpus * n.peak * 1e15),
        "takes one GPU": lambda n: _even(n) / n.gpus,
        "turns the fraction over": lambda n: _even(n) * (n.percent / 100) ** -2,
    },
    hint="How long does computing take? The bytes have to be there sooner.",
    solution=lambda n: [
        f"The GPUs reach {n.gpus} · {n.peak:g} PFLOP/s · {n.percent / 100:g} = {_reached(n):g} PFLOP/s, and compute "
        f"the prompt in {n.pflop:g} PFLOP / {_reached(n):g} PFLOP/s = {format_seconds(n.pflop / _reached(n))}.",
        "Moving is quicker at a rate that brings the cache in less:",
        working(d.break_even_rate, cache_bytes=n.mb * 1e6, compute_rate=_reached(n) * 1e15, prompt_flop=n.pflop * 1e15),
    ],
)
