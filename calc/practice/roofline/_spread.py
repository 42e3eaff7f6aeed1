"""Problems about work that is spread: bytes of a ring, when splitting pays, experts that a batch reads."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import roofline
from calc.models import MixtureOfExperts
from calc.practice._problem import Problem
from calc.practice.roofline._model import DENSE, EXPERTS, LINKED, RANKS, billions, chip, geometry, multiplied
from calc.units import format_bytes, format_count, format_decimal, format_percent, significant
from calc.working import working

MIXTURES = ("mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "gpt-oss-120b")


def _message(n: Numbers) -> float:
    return roofline.message_bytes(step_tokens=n.tokens, hidden=geometry(n.model).hidden, element_bytes=2)


def _sums(n: Numbers) -> int:
    return 2 * len(geometry(n.model).layers)


def _sent(n: Numbers, sums: int | None = None) -> float:
    return (_sums(n) if sums is None else sums) * roofline.ring_bytes(message_bytes=_message(n), ranks=n.ranks)


ring = Problem(
    id="roofline/ring",
    title="What the ranks send",
    level=1,
    step=RANKS,
    printed={"model": "llama-3.1-8b", "tokens": 256, "ranks": 4},
    choices={"model": DENSE, "tokens": (1, 32, 256, 4096), "ranks": (2, 4, 8)},
    ask=lambda n: (
        f"{geometry(n.model).name} has {len(geometry(n.model).layers)} layers and hidden states of "
        f"{format_count(geometry(n.model).hidden)} elements in bf16. It runs on {n.ranks} tensor-parallel ranks, which "
        "add up the hidden states after the attention and after the MLP of every layer, in a ring. How many bytes does "
        f"each rank send in a step of {format_count(n.tokens)} token{'s' * (n.tokens > 1)}?"
    ),
    unit="B",
    answer=_sent,
    mistakes={
        "counts one all-reduce a layer": lambda n: _sent(n, sums=_sums(n) // 2),
        "sends the message once, whatever the ring": lambda n: _sums(n) * _message(n),
        "counts only the adding-up half of a ring": lambda n: _sent(n) / 2,
        "sends the message to every other rank": lambda n: _sums(n) * (n.ranks - 1) * _message(n),
    },
    hint="A ring sends all but one of the message's parts twice: once to add up, once to hand the sums round.",
    solution=lambda n: [
        working(roofline.message_bytes, step_tokens=n.tokens, hidden=geometry(n.model).hidden, element_bytes=2),
        working(roofline.ring_bytes, message_bytes=_message(n), ranks=n.ranks),
        f"Two in each layer, {_sums(n)} in all: {format_bytes(_sent(n))}.",
    ],
)


def _pays(n: Numbers, **changed: float) -> float:
    numbers = {"model_bytes": 2 * multiplied(n.model), "bandwidth": chip(n.chip).bandwidth.value, "ranks": n.ranks}
    return roofline.break_even_all_reduce(**numbers | {"all_reduces": _sums(n)} | changed)


split_pays = Problem(
    id="roofline/split-pays",
    title="When a second GPU pays",
    level=3,
    step=RANKS,
    printed={"model": "llama-3.1-8b", "chip": "h100-sxm", "ranks": 2},
    choices={"model": DENSE, "chip": LINKED, "ranks": (2, 4, 8)},
    ask=lambda n: (
        f"{geometry(n.model).name} has {len(geometry(n.model).layers)} layers and multiplies each token with "
        f"{billions(multiplied(n.model))} in bf16. One {chip(n.chip).name} reads "
        f"{format_decimal(chip(n.chip).bandwidth.value, 'B/s')}. One sequence decodes, and memory alone decides. How "
        f"long may each all-reduce take before {n.ranks} tensor-parallel ranks are no faster than one GPU?"
    ),
    unit="s",
    answer=_pays,
    mistakes={
        "counts one all-reduce a layer": lambda n: _pays(n, all_reduces=_sums(n) // 2),
        "saves the whole reading": lambda n: _pays(n) / (1 - 1 / n.ranks),
        "compares with what a rank still reads": lambda n: _pays(n) / (n.ranks - 1) if n.ranks > 2 else None,
    },
    hint="Each rank reads only its share. What it no longer reads is time that the all-reduces may use up.",
    solution=lambda n: [
        working(
            roofline.break_even_all_reduce,
            model_bytes=2 * multiplied(n.model),
            bandwidth=chip(n.chip).bandwidth.value,
            ranks=n.ranks,
            all_reduces=_sums(n),
        )
    ],
)


def _mixture(slug: str) -> MixtureOfExperts:
    return next(layer.mlp for layer in geometry(slug).layers if isinstance(layer.mlp, MixtureOfExperts))


def _picks(n: Numbers) -> dict[str, int]:
    mlp = _mixture(n.model)
    return {"experts": mlp.experts, "experts_per_token": mlp.experts_per_token}


def _read(n: Numbers) -> float:
    return roofline.experts_touched(**_picks(n), step_tokens=n.tokens)


experts = Problem(
    id="roofline/experts",
    title="Experts that a batch reads",
    level=2,
    step=EXPERTS,
    printed={"model": "qwen3-30b-a3b", "tokens": 12},
    choices={"model": MIXTURES, "tokens": (2, 4, 8, 12, 24, 48)},
    ask=lambda n: (
        f"In {geometry(n.model).name} each token picks {_picks(n)['experts_per_token']} of {_picks(n)['experts']} "
        f"experts in a layer. {format_count(n.tokens)} tokens decode together and pick independently, all sets being "
        "equally likely. Of how many experts does a layer read the weights, on average?"
    ),
    unit="experts",
    answer=_read,
    mistakes={
        "adds the picks up": lambda n: n.tokens * _picks(n)["experts_per_token"],
        "reads one token's experts": lambda n: _picks(n)["experts_per_token"],
        "reads all of them": lambda n: _picks(n)["experts"],
    },
    hint="How likely is it that one expert is passed over by every token?",
    solution=lambda n: [
        working(roofline.experts_touched, **_picks(n), step_tokens=n.tokens),
        f"{significant(_read(n))} experts on average, {format_percent(_read(n) / _picks(n)['experts'])} of all.",
    ],
)
