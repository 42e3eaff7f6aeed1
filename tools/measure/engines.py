"""Start, watch and end the processes that are recorded: vLLM's server, transformers' server, the gateway."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from .artifacts import TARGET
from .environment import HOME, ROOT
from .recording import STEPS, to_deltas

START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 10
HEALTH_POLL_S = 0.02
CACHE_GIB = 1
CACHE_TOKENS = 87296  # what vLLM lays out of it for this model in bf16
BLOCK_TOKENS = 128
MAX_POSITIONS = 9216  # the longest prompt, 8,192 tokens, and its answer, in whole blocks


ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB),
    "VLLM_LOG_STATS_INTERVAL": "0.5",
    "VLLM_LOGGING_CONFIG_PATH": ".measure/logging.json",
    "VLLM_USE_AOT_COMPILE": "0",  # this build cannot read back what it saves ahead of time; Inductor's own cache works
    "VLLM_CACHE_ROOT": ".measure/cache/vllm",
    "TORCHINDUCTOR_CACHE_DIR": ".measure/cache/inductor",
    "PYTHONWARNINGS": "ignore",
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"stamped": {"format": "%(created).6f %(processName)s | %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "stamped", "stream": "ext://sys.stdout"}},
    "loggers": {"vllm": {"handlers": ["out"], "level": "INFO", "propagate": False}},
}
LINE = re.compile(r"(?P<at>\d+\.\d{6}) (?P<process>\S+) \| (?P<message>.*)")
ITERATION = re.compile(
    r"Iteration\(\d+\): (\d+) context requests, (\d+) context tokens, "
    r"(\d+) generation requests, (\d+) generation tokens, iteration elapsed time: ([\d.]+) ms"
)
GAUGE = re.compile(r"Running: (\d+) reqs, Waiting: (\d+) reqs,.* KV cache usage: ([\d.]+)%")

# What vLLM says when a phase of its start is over, in the order of a start
MARKS = {
    "server imported": re.compile(r"vLLM server version"),
    "configuration read": re.compile(r"Using max model len"),
    "engine core imported": re.compile(r"Initializing a V1 LLM engine"),
    "worker joined": re.compile(r"rank 0 in world size 1 is assigned"),
    "weights asked for": re.compile(r"Starting to load model"),
    "weights loaded": re.compile(r"Loading weights took"),
    "warm-up begun": re.compile(r"Warming up model for the compilation"),
    "warm-up done": re.compile(r"Warming up done"),
    "cache laid out": re.compile(r"KV cache size: [\d,]+ tokens"),
    "engine ready": re.compile(r"init engine .* took"),
    "server listening": re.compile(r"Starting vLLM server on"),
}


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Ask the kernel to end this child when its parent ends, however that happens."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class Process:
    """A child in its own process group, which ends with the `with` block."""

    arguments: tuple[str, ...]
    port: int
    log: Path
    program: str = ".measure/venv/bin/python"
    health: str = "/health"
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def command(self) -> list[str]:
        return [self.program, *self.arguments]

    def __enter__(self):
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | self.environment
        self.wall_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()
        self.spawned_ns = time.monotonic_ns()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(ROOT / self.program), *self.arguments],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception) -> None:
        self.process.terminate()  # the leader ends its own children; what it leaves behind is killed
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._group_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        if self._group_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _group_alive(self) -> bool:
        self.process.poll()  # reap it, or the group would live on as a zombie
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{' '.join(self.command)} ended with {self.process.returncode}:\n{self.tail()}")
            try:
                with urllib.request.urlopen(self.url + self.health, timeout=5):
                    self.healthy_ns = time.monotonic_ns()
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(HEALTH_POLL_S)
        raise RuntimeError(f"{' '.join(self.command)} did not answer within {START_TIMEOUT_S} s:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])

    def messages(self):
        """Every stamped line of the log: (monotonic time in ns, message)."""
        with self.log.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if match := LINE.match(line):
                    yield round(float(match["at"]) * 1e9) - self.wall_minus_monotonic_ns, match["message"]

    def engine_rows(self, run: int, origin_ns: int, end_ns: int) -> list[dict]:
        """Steps and queue gauges that the log holds between two monotonic times, as two rows of columns."""
        steps: list[tuple[int, ...]] = []
        gauges: list[tuple[int, ...]] = []
        for at_ns, message in self.messages():
            if origin_ns <= at_ns <= end_ns:
                at_us = (at_ns - origin_ns) // 1000
                if match := ITERATION.search(message):
                    *counts, elapsed_ms = match.groups()
                    steps.append((at_us, *map(int, counts), round(float(elapsed_ms) * 1000)))
                elif match := GAUGE.search(message):
                    running, waiting, usage = match.groups()
                    gauges.append((at_us, int(running), int(waiting), round(float(usage) * 10)))
        names = {
            "steps": STEPS,
            "gauge": ("at_us", "running", "waiting", "cache_permille"),
        }
        rows = []
        for kind, table in (("steps", sorted(steps)), ("gauge", sorted(gauges))):
            if table:
                columns = dict(zip(names[kind], map(list, zip(*table, strict=True)), strict=True))
                columns["at_us"] = to_deltas(columns["at_us"])
                rows.append({"kind": kind, "run": run, **columns})
        return rows

    def marks_us(self) -> dict[str, int]:
        """When each phase of vLLM's start was over, after the process was spawned."""
        found = {"spawned": 0}
        for at_ns, message in self.messages():
            for name, pattern in MARKS.items():
                if name not in found and pattern.search(message):
                    found[name] = (at_ns - self.spawned_ns) // 1000
        found["healthy"] = (self.healthy_ns - self.spawned_ns) // 1000
        return found


def vllm(log: str, *options: str, **environment: str) -> Process:
    """vLLM's server on the target model. Its log gives every step and twice a second the length of its queue."""
    (HOME / "logging.json").write_text(json.dumps(LOGGING), encoding="ascii")
    port = free_port()
    arguments = (
        *("-m", "vllm.entrypoints.openai.api_server", "--model", TARGET),
        *("--host", "127.0.0.1", "--port", str(port), "--uvicorn-log-level", "warning"),
        *("--max-model-len", str(MAX_POSITIONS)),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details", "--enable-logging-iteration-details"),
        *options,
    )
    return Process(arguments, port, HOME / "logs" / f"{log}.log", environment=ENVIRONMENT | environment)


def transformers(log: str, dtype: str, budget: int) -> Process:
    """Transformers' server with continuous batching, its cache and its token budget as large as vLLM's."""
    port = free_port()
    blocks = CACHE_TOKENS // BLOCK_TOKENS
    arguments = (
        *("serve", TARGET, "--continuous-batching", "--device", "cpu", "--dtype", dtype),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--cb-block-size", str(BLOCK_TOKENS), "--cb-num-blocks", str(blocks), "--cb-max-batch-tokens", str(budget)),
    )
    program = ".measure/venv/bin/transformers"
    return Process(arguments, port, HOME / "logs" / f"{log}.log", program, environment=ENVIRONMENT)


def gateway(upstream: str) -> Process:
    port = free_port()
    arguments = ("-m", "measure.gateway", "--port", str(port), "--upstream", upstream)
    environment = {"PYTHONPATH": "tools"}
    return Process(arguments, port, HOME / "logs" / "gateway.log", health="/stamps", environment=environment)
