"""Problems about runs: whether two numbers are one fact, and whether a run was sound at all."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc.practice._problem import Problem
from calc.practice.engine_selection._model import GOOD
from calc.roofline import multiply_seconds
from calc.units import counted, format_count, format_decimal, format_seconds, significant
from calc.working import working

same_fact = Problem(
    id="engine_selection/same-fact",
    title="One fact or two",
    level=1,
    step=GOOD,
    printed={"rate": 300, "seconds": 8.0, "requests": 20, "slow": 96},
    choices={
        "rate": (240, 320, 450, 600),
        "seconds": (6.0, 8.0, 12.5),
        "requests": (8, 12, 20, 25),
        "slow": (96, 128, 150),
    },
    ask=lambda n: (
        f"A report says that engine A makes {n.rate} tokens/s and answers {n.requests} requests, sent together, in "
        f"{n.seconds:g} s; engine B makes {n.slow} tokens/s and takes "
        f"{significant(n.rate * n.seconds / n.slow, 3)} s. How many tokens has an answer, on average?"
    ),
    unit="tokens",
    answer=lambda n: n.rate * n.seconds / n.requests,
    mistakes={
        "forgets to divide by the requests": lambda n: n.rate * n.seconds,
        "divides by the time instead of multiplying": lambda n: n.rate / n.seconds,
        "takes the slow engine's rate and the fast one's time": lambda n: n.slow * n.seconds / n.requests,
    },
    hint="A rate times a time is a number of tokens. Both engines must give the same number.",
    solution=lambda n: [
        f"A: {n.rate} × {n.seconds:g} = {format_count(n.rate * n.seconds)} tokens. B: the same, so throughput and time "
        "are one fact, told twice.",
        f"An answer: {format_count(n.rate * n.seconds)} / {n.requests} = "
        f"{format_count(n.rate * n.seconds / n.requests)} tokens.",
    ],
)


def _expected(n: Numbers) -> float:
    return multiply_seconds(
        step_tokens=n.prompts * n.prompt, weights=1e9 * n.billions, peak=1e12 * n.tflops * n.gpus * n.percent / 100
    )


broken_run = Problem(
    id="engine_selection/broken-run",
    title="Slow, or broken",
    level=3,
    step=GOOD,
    printed={"billions": 14, "gpus": 2, "tflops": 312, "percent": 50, "prompts": 40, "prompt": 16_000, "took": 1800},
    choices={
        "billions": (8, 14, 32),
        "gpus": (1, 2, 4),
        "tflops": (312, 989),
        "percent": (40, 50),
        "prompts": (40, 60),
        "prompt": (16_000, 24_000),
        "took": (1800, 3600, 5400),
    },
    possible=lambda n: n.took > 5 * _expected(n),
    ask=lambda n: (
        f"A benchmark sends {n.prompts} prompts of {n.prompt:,} tokens to a dense model of {n.billions} billion "
        f"parameters on {n.gpus} GPU{'' if n.gpus == 1 else 's'} of {n.tflops} TFLOP/s"
        f"{'' if n.gpus == 1 else ' each'}, and takes {n.took:,} s. With {n.percent}% of the peak, and attention left "
        "out, how many times as long as the prefill needs is that?"
    ),
    unit="x",
    answer=lambda n: n.took / _expected(n),
    mistakes={
        "counts a multiply-add as one FLOP": lambda n: 2 * n.took / _expected(n),
        "takes the whole peak": lambda n: n.took / _expected(n) * 100 / n.percent,
        "takes one GPU": lambda n: n.took / _expected(n) / n.gpus,
        "works out one prompt": lambda n: n.took / _expected(n) * n.prompts,
    },
    hint="Two FLOP for each parameter and token. Compare the time that takes with the time that passed.",
    solution=lambda n: [
        f"Tokens: {n.prompts} × {n.prompt:,} = {n.prompts * n.prompt:,}.",
        f"Rate: {counted(n.gpus, 'GPU')} × {n.tflops} TFLOP/s × {n.percent / 100:g} = "
        f"{format_decimal(1e12 * n.tflops * n.gpus * n.percent / 100, 'FLOP/s')}.",
        working(
            multiply_seconds,
            step_tokens=n.prompts * n.prompt,
            weights=1e9 * n.billions,
            peak=1e12 * n.tflops * n.gpus * n.percent / 100,
        ),
        f"{n.took:,} s are {significant(n.took / _expected(n))} times the prefill's {format_seconds(_expected(n))}: "
        "find what the engine fell back to before comparing it with another.",
    ],
)
