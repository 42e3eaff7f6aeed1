"""Read a vLLM start-up log: pasted text in, the numbers it prints out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from calc.units import UNITS, CalcError

LONGEST = 2_000_000  # characters of a log
LONGEST_LINE = 4_000  # the engine's own configuration line is about half of that
LARGEST = 10**15  # bytes or tokens that a log may claim

_COLOR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_WORKER = re.compile(r"\((?:Vllm|Ray)?(?:Worker|EngineCore)[\w= ]{0,60}\)")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d{1,6})?|\d{1,15}(?:\.\d{1,6})?)"
_N = f"({_DIGITS})"
_SHARE = r"(0?\.\d{1,6}|1(?:\.0{1,6})?)"
_GIB = _N + r" ?(?:GiB|GB)"  # versions before 0.8 print GB and mean GiB
_SIGNED = f"(-?{_DIGITS}) ?(?:GiB|GB)"  # what is left may be less than nothing

# What a line says, and how: one pattern for every wording of a number since 2023. None of them repeats a repetition.
PATTERNS: tuple[tuple[str, str], ...] = (
    ("total", r"total_gpu_memory[ =(]{1,12}" + _GIB),
    ("fraction", r"gpu_memory_utilization[ =(\t]{1,12}" + _SHARE),
    ("fraction", r"Desired GPU memory utilization is \(" + _SHARE + ","),
    ("fraction", r"less than desired GPU memory utilization \(" + _SHARE + ","),
    ("fraction", r"Requested memory: " + _SHARE + r" \(util\)"),
    ("total", r"Free memory on device \S{0,20} ?\(\d{1,6}\.?\d{0,6}/" + _GIB),
    ("free", r"\(" + _N + r"/[0-9.]{1,8} GiB\) on startup is less than"),
    ("requested", r"gpu_memory_utilization \([0-9.]{1,8}\) = " + _GIB),
    ("requested", r"the current vLLM instance can use\s{1,8}" + _GIB),
    ("requested", r"Desired GPU memory utilization is \([0-9.]{1,8}, " + _GIB),
    ("requested", r"less than desired GPU memory utilization \([0-9.]{1,8}, " + _GIB),
    ("requested", r"Requested memory: [0-9.]{1,8} \(util\), " + _GIB),
    ("weights", r"Model loading took " + _GIB),
    ("weights", r"Loading model weights took " + _GIB),
    ("weights", r"model weights take ?\s{0,8}" + _GIB),
    ("weights", r"Actual usage(?: is|:) " + _GIB + r" for weights?"),
    ("weights", r"; weights memory: " + _GIB),
    ("outside", r"non_torch_memory(?: takes|=| )\s{0,8}" + _GIB),
    ("outside", r"\W" + _GIB + r" for non-torch memory"),
    ("outside", r"non-torch forward increase memory: " + _GIB),
    ("activation", r"PyTorch activation peak memory(?: takes)?\s{1,8}" + _GIB),
    ("activation", r"and " + _N + r" GiB for peak activation"),
    ("activation", r", " + _N + r" GiB for peak activation"),
    ("activation", r"torch peak memory increase: " + _GIB),
    ("profiled", r"Total non KV cache memory: " + _GIB),
    ("peak", r"peak_torch_memory=" + _GIB),
    ("consumed", r"Actual usage is " + _N + r" GiB for consumed memory"),
    ("graphs", r"Estimated CUDA graph memory: " + _GIB),
    ("captured", r"Graph capturing finished in \d{1,6} secs, took " + _GIB),
    ("captured", r"\W" + _GIB + r" for (?:CUDAGraph|NPU graph) memory"),
    ("available", r"Available KV cache memory: " + _SIGNED),
    ("available", r"available KV cache memory \(" + _SIGNED),
    ("available", r"the rest of the memory reserved for KV Cache is " + _SIGNED),
    ("available", r"available_kv_cache_memory\s{1,8}" + _SIGNED),
    ("available", r"[Cc]urrent (?:kv|KV) cache memory(?: in use is|:) " + _GIB),
    ("needed", r"\W" + _GIB + r" KV cache is needed"),
    ("estimated", r"estimated maximum model length is " + _N),
    ("stored", r"stored in KV cache \(" + _N),
    ("empty", r"(No available memory) for the cache blocks"),
    ("available", r"kv_cache_size=" + _GIB),
    ("blocks", r"(?:GPU|cuda|CUDA|rocm|ROCm) blocks: " + _N + r"(?!\w)"),
    ("tokens", r"KV cache size: " + _N + r" tokens"),
    ("length", r"max seq len \(" + _N + r"\)"),
    ("length", r"Maximum concurrency for " + _N + r" tokens per request"),
    ("concurrency", r"tokens per request: " + _N + r"x"),
    ("block_tokens", r"Setting attention block size to " + _N + r" tokens"),
    ("padded", r"Padding mamba page size by " + _N + r"%"),
    ("padding_layers", r"Add " + _N + r" padding layers"),
    ("tensor", r"tensor_parallel_size'?[=:] ?(\d{1,4})"),
    ("pipeline", r"pipeline_parallel_size'?[=:] ?(\d{1,4})"),
    ("batched", r"max_num_batched_tokens'?[=:] ?" + _N + r"(?!\w)"),
    ("asynchronous", r"Asynchronous scheduling is (enabled|disabled)"),
    ("asynchronous", r"async_scheduling'?[=:] ?(True|False)"),
    ("prefix_caching", r"enable_prefix_caching'?[=:] ?(True|False)"),
)
_WORDS = {"No available memory": "1", "enabled": "1", "True": "1", "disabled": "0", "False": "0"}
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in PATTERNS)
BYTES = {
    "total",
    "free",
    "requested",
    "weights",
    "outside",
    "activation",
    "peak",
    "consumed",
    "profiled",
    "graphs",
    "captured",
    "available",
    "needed",
}
SIZES = ("tokens", "blocks", "stored")  # of the cache
FAILED = ("needed", "stored", "empty", "free")  # only a start that failed prints these
_ONE = (*SIZES, "length", "concurrency")  # a start prints these once, or once a rank
_RANK = re.compile(r"(?:PP|TP)_?\d{1,4}|rank=\d{1,4}")
_ENGINE = re.compile(r"DP_?\d{1,4}")
_ALIKE = 0.9  # of the largest size of a rank has the smallest, where a log doesn't say that there are several


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of a log.

    Attributes
    ----------
    name : str
        What it is: a first entry of `PATTERNS`.
    value : float
        In bytes, tokens, blocks or requests; 1 or 0 for what is on or off.
    half_step : float
        Half of its last printed digit, in the same unit: what rounding may hide.
    line : int
        Number of its line, from 1.
    worker : str
        Tag of the process that printed it, empty where there is none.
    """

    name: str
    value: float
    half_step: float
    line: int
    worker: str


@dataclass(frozen=True, slots=True)
class StartupLog:
    """The numbers of a start-up log, in the order of its lines.

    Attributes
    ----------
    facts : tuple of Fact
    """

    facts: tuple[Fact, ...]

    def all(self, name: str) -> tuple[Fact, ...]:
        """Every number of a name."""
        return tuple(f for f in self.facts if f.name == name)

    def get(self, name: str) -> Fact | None:
        """The number of a name that counts: of several ranks, that of the one with the least cache."""
        found = self.all(name)
        if name == "available" or name in SIZES:
            return min(found, key=lambda f: f.value, default=None)
        if name == "concurrency" and len(found) > 1:  # it stands under the size of its rank
            size = self.get("tokens") or self.get("blocks")
            return next((f for f in found if size and f.line >= size.line), found[0])
        least = self.get("available") if len(found) > 1 else None
        same = [f for f in found if least is not None and f.worker == least.worker]
        return next(iter(same or found), None)

    @property
    def failed(self) -> bool:
        """Whether the engine says why it didn't start."""
        return any(f.name in FAILED or (f.name == "available" and f.value < 0) for f in self.facts)

    @property
    def older(self) -> bool:
        """Whether its cache size follows the rule of vLLM before 0.21: it isn't concurrency times the longest sequence.

        Before, it was blocks over groups of layers, times a block's positions; for layers of one kind the two agree but
        for a last block. vllm-project/vllm issues 40691 and 43308.
        """
        tokens, length, times = (self.get(name) for name in ("tokens", "length", "concurrency"))
        if tokens is None or length is None or times is None:
            return False
        return abs(tokens.value / length.value - times.value) > times.half_step + 1 / length.value

    @property
    def hybrid(self) -> bool:
        """Whether the engine says that recurrent layers enlarged the block."""
        return any(f.name in {"block_tokens", "padded"} for f in self.facts)


def read_log(text: str) -> StartupLog:
    """Read the memory lines of a vLLM start-up log.

    Parameters
    ----------
    text : str
        The log, or the part of it about memory. Other lines are passed over.

    Returns
    -------
    StartupLog

    Raises
    ------
    CalcError
        If it is no text, too long, has no line that is known, or holds the logs of several starts.

    Notes
    -----
    Knows the wordings of vLLM from 0.2 to 0.32, of starts that fail too. Old versions print "GB" and mean GiB, and are
    read so. Where a size of the cache is printed for every rank, the least counts, as it does for the engine. The text
    is searched, never run, stored or sent anywhere; lines beyond 4,000 characters are cut.

    Examples
    --------
    >>> log = read_log("INFO 04-24 [kv_cache_utils.py:634] GPU KV cache size: 158,656 tokens")
    >>> log.get("tokens").value
    158656
    """
    if not isinstance(text, str):
        raise CalcError(f"a log is text, not {type(text).__name__}: paste its lines")
    if len(text) > LONGEST:
        raise CalcError(
            f"{len(text):,} characters are no start-up log: paste the lines about memory, up to {LONGEST:,}"
        )
    facts = tuple(fact for number, line in enumerate(text.splitlines(), 1) for fact in _facts(line, number))
    if not any(f.name in ("available", "weights", *SIZES, *FAILED) for f in facts):
        raise CalcError(
            'no line of a vLLM start-up log found: look for "Available KV cache memory: … GiB", '
            '"KV cache size: … tokens" or "… GiB KV cache is needed"'
        )
    several = False
    for name in _ONE:
        values = {f.value for f in facts if f.name == name}
        if name in SIZES and len(values) > 1 and _ranks_of_one_start(facts, name, values):
            several = True
        elif len(values) > 1 and not (several and name == "concurrency"):
            few = " and ".join(f"{v:,}" for v in sorted(values)[:2])
            raise CalcError(f"the log gives {name} as {few}: paste the lines of one engine and one start")
    if any(f.name == "length" and not f.value for f in facts):
        raise CalcError("the log gives a longest sequence of 0 tokens: paste the lines of a start that came up")
    return StartupLog(facts)


def _ranks_of_one_start(facts: tuple[Fact, ...], name: str, values: set[float]) -> bool:
    """Whether differing sizes are those of the ranks of one start, which versions of 2025 print one by one."""
    if len({tag[0] for f in facts if f.name == name and (tag := _ENGINE.search(f.worker))}) > 1:
        return False
    stated = [next((f.value for f in facts if f.name == cut), None) for cut in ("tensor", "pipeline")]
    if any(stated):
        return (stated[0] or 1) * (stated[1] or 1) >= len(values)
    tags = {"".join(_RANK.findall(f.worker)) for f in facts}
    return len(tags - {""}) > 1 or min(values) >= _ALIKE * max(values)


def _facts(line: str, number: int) -> Iterator[Fact]:
    line = _COLOR.sub("", line[:LONGEST_LINE])
    tag = _WORKER.search(line)
    seen = set()
    for name, pattern in _COMPILED:
        match = pattern.search(line) if name not in seen else None
        if match:
            seen.add(name)
            yield _fact(name, match[1], number, tag[0] if tag else "")


def _fact(name: str, digits: str, line: int, worker: str) -> Fact:
    plain = _WORDS.get(digits, digits).replace(",", "")
    decimals = len(plain.partition(".")[2])
    value = float(plain) if decimals else int(plain)
    scale = UNITS["GiB"].factor if name in BYTES else 1
    if abs(value) * scale > LARGEST:
        raise CalcError(f"line {line}: {digits[:20]} is too large to be meant")
    if name in BYTES:
        decimals = max(2, decimals)  # newer versions round to two digits and drop the zeros
    half = 0.5 * 10.0**-decimals * scale if decimals else 0
    return Fact(name, value * scale, half, line, worker)
