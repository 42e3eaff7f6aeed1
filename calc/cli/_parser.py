"""What can be asked on the command line, and how a question is refused: one line and exit code 2."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import calc
from calc.units import CalcError, parse
from calc.worksheet import arithmetic_types, cache_types, size, weight_types

DEFAULTS = {name: p.default for name, p in inspect.signature(size).parameters.items()}


class Refused(Exception):
    """Bad input: the message is one line for the reader."""


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see {self.prog} --help")


def amount(dimension: str, example: str) -> Callable[[str], float]:
    """A reader of quantities with a unit, such as "500ms"."""

    def read(text: str) -> float:
        try:
            found = parse(text)
        except CalcError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if found.dimension != dimension:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no quantity like {example}: write its unit")
        return found.value

    return read


def whole(text: str) -> int:
    """A whole number; digits may be grouped."""
    plain = text.replace(",", "").replace("_", "")
    if not (plain.isascii() and plain.lstrip("+-").isdigit()) or len(plain) > 18:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number: write every digit, such as 131,072")
    return int(plain)


def share(text: str) -> float:
    """A share: 0.92 or 92%."""
    try:
        found = parse(text)
    except CalcError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found.dimension:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no share: write 0.92 or 92%%".replace("%%", "%"))
    return found.value


SECONDS = amount("second", "500ms")
BYTES = amount("byte", "1.5GiB")
RATE = amount("byte/second", "5GB/s")


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="python -m calc",
        description="Sizes a deployment of a language model: memory, floors of time, adapters, cold start.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"calc {calc.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _size(commands)
    _explain(commands)
    _latency(commands)
    for name, what in (("models", "models of the catalogue"), ("accelerators", "accelerators of the catalogue")):
        listed = commands.add_parser(name, help=f"list the {what}", allow_abbrev=False)
        listed.add_argument("--json", action="store_true", help="as JSON")
    return top


def _model(command: argparse.ArgumentParser, *, required: bool) -> None:
    group = command.add_mutually_exclusive_group(required=required)
    group.add_argument("--config", metavar="FILE", help="a config.json; - reads standard input")
    group.add_argument("--model", metavar="SLUG", help="a model of the catalogue")
    command.add_argument("--quantization", dest="quantization_file", metavar="FILE",
                         help="an hf_quant_config.json that lies elsewhere")  # fmt: skip


def _cut(command: argparse.ArgumentParser, default: int | None) -> None:
    command.add_argument("--tp", "--tensor-parallel-size", dest="tensor", type=whole, default=default, metavar="N",
                         help="tensor-parallel ranks")  # fmt: skip
    command.add_argument("--pp", "--pipeline-parallel-size", dest="pipeline", type=whole, default=default, metavar="N",
                         help="pipeline stages")  # fmt: skip


def _size(commands: Any) -> None:
    command = commands.add_parser(
        "size",
        help="size a deployment",
        allow_abbrev=False,
        description="Memory, floors of time, adapters, speculation and cold start of one deployment.",
    )
    _model(command, required=True)
    add = command.add_argument
    add("--name", help="name to show")
    add("--accelerator", default=DEFAULTS["accelerator"], metavar="SLUG", help="a slug of: python -m calc accelerators")
    add("--count", "--gpus", dest="count", type=whole, metavar="N", help="GPUs there are; default: one replica's")
    _cut(command, 1)
    add(
        "--ep",
        "--enable-expert-parallel",
        dest="expert_parallel",
        type=whole,
        nargs="?",
        const=0,
        default=1,
        metavar="N",
        help="deal out whole experts over the tensor-parallel ranks; N, if given, is their number",
    )
    add("--weights", default="auto", metavar="TYPE", help=f"one of {', '.join(weight_types())}")
    add("--arithmetic", default="auto", metavar="TYPE", help=f"one of {', '.join(arithmetic_types())}")
    add(
        "--cache",
        "--kv-cache-dtype",
        dest="cache",
        default="auto",
        metavar="TYPE",
        help=f"one of {', '.join(cache_types())}",
    )
    for name, what in (
        ("context", "tokens of a prompt"),
        ("output", "tokens of a response"),
        ("concurrency", "sequences at once on a replica"),
    ):
        add(f"--{name}", type=whole, default=DEFAULTS[name], metavar="N", help=f"{what} ({DEFAULTS[name]})")
    add("--engine", default=DEFAULTS["engine"], metavar="SLUG", help="whose memory setting: vllm, sglang, …")
    add(
        "--memory-fraction",
        "--gpu-memory-utilization",
        type=share,
        metavar="SHARE",
        help="the engine's memory setting; default: the engine's",
    )
    for option, name, what in (
        ("workspace", "workspace_bytes", "activations and workspace on a GPU"),
        ("graphs", "graph_bytes", "captured graphs on a GPU"),
        ("communication", "communication_bytes", "communication buffers and context on a GPU"),
    ):
        add(f"--{option}", dest=name, type=BYTES, default=DEFAULTS[name], metavar="SIZE", help=f"{what}, like 1.5GiB")
    add(
        "--block-tokens",
        "--block-size",
        type=whole,
        default=DEFAULTS["block_tokens"],
        metavar="N",
        help="positions in a block",
    )
    add(
        "--batched-tokens",
        "--max-num-batched-tokens",
        type=whole,
        default=DEFAULTS["batched_tokens"],
        metavar="N",
        help="most tokens in a step",
    )
    add("--no-prefix-caching", dest="prefix_caching", action="store_false", help="no blocks kept for shared prefixes")
    add("--lora-rank", type=whole, default=DEFAULTS["lora_rank"], metavar="N", help="rank of an adapter")
    add("--lora-slots", type=whole, default=DEFAULTS["lora_slots"], metavar="N", help="adapter slots on each GPU")
    add("--draft-tokens", type=whole, default=DEFAULTS["draft_tokens"], metavar="N", help="draft tokens in a round")
    add("--acceptance", type=share, default=DEFAULTS["acceptance"], metavar="SHARE", help="acceptance of one")
    add("--draft-cost", type=share, default=DEFAULTS["draft_cost"], metavar="SHARE", help="its time over a plain step")
    add("--ttft", dest="ttft_s", type=SECONDS, metavar="TIME", help="limit on the time to the first token, like 500ms")
    add("--tpot", dest="tpot_s", type=SECONDS, metavar="TIME", help="limit on the time per output token, like 50ms")
    for option, what in (
        ("object", "object storage to the node"),
        ("disk", "the node's disks"),
        ("host", "host link of a GPU"),
    ):
        add(
            f"--{option}-rate",
            type=RATE,
            default=DEFAULTS[f"{option}_rate"],
            metavar="RATE",
            help=f"{what}, like 5GB/s",
        )
    add("--reached", type=share, default=DEFAULTS["reached"], metavar="SHARE", help="share of those rates that arrives")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON with documented keys")
    form.add_argument("--csv", action="store_true", help="as CSV")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    form.add_argument("--working", action="store_true", help="with formulas and the numbers put in")


def _explain(commands: Any) -> None:
    command = commands.add_parser("explain-log", help="explain a vLLM start-up log", allow_abbrev=False)
    add = command.add_argument
    add("file", metavar="FILE", help="the log; - reads standard input")
    _model(command, required=False)
    _cut(command, None)
    add("--accelerator", metavar="SLUG", help="for its memory, where the log doesn't print it")
    add(
        "--memory-fraction",
        "--gpu-memory-utilization",
        type=share,
        metavar="SHARE",
        help="where the log doesn't print it",
    )
    add("--ep", "--enable-expert-parallel", dest="expert_parallel", action="store_true", help="whole experts on a rank")
    add("--weights", default="auto", metavar="TYPE", help="type of the weights; default: what the checkpoint says")
    add(
        "--cache",
        "--kv-cache-dtype",
        dest="cache",
        default="auto",
        metavar="TYPE",
        help="type of the cache; default: what the checkpoint says",
    )
    add("--weight-bytes", type=share, metavar="BYTES", help="bytes of every parameter alike, in place of --weights")
    add("--block-tokens", "--block-size", type=whole, default=16, metavar="N", help="positions in a block")
    add(
        "--batched-tokens",
        "--max-num-batched-tokens",
        type=whole,
        metavar="N",
        help="most tokens in a step, where the log doesn't print it",
    )
    for option, name, what in (
        ("--async-scheduling", "asynchronous", "whether two steps are in flight"),
        ("--prefix-caching", "prefix_caching", "whether prefixes are cached"),
    ):
        help_ = f"{what}; default: what the log says or agrees with"
        add(option, dest=name, action=argparse.BooleanOptionalAction, help=help_)
    add("--json", action="store_true", help="as JSON")


def _latency(commands: Any) -> None:
    command = commands.add_parser("latency", help="measure a benchmark's result file", allow_abbrev=False)
    add = command.add_argument
    add("file", metavar="RESULT_FILE", help="result file of vLLM's benchmark, GuideLLM, AIPerf or LLMServingSim")
    add("--ttft", dest="ttft_s", type=SECONDS, metavar="TIME", help="limit on the time to the first token, like 500ms")
    add("--tpot", dest="tpot_s", type=SECONDS, metavar="TIME", help="limit on the time per output token, like 50ms")
    add("--e2e", dest="e2e_s", type=SECONDS, metavar="TIME", help="limit on the whole request")
    add("--dialect", metavar="NAME", help="whose way of counting; default: the book's and the tool's own")
    add("--json", action="store_true", help="as JSON")
