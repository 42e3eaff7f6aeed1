"""The load generator: sends requests when they are due, and stamps every chunk when it arrives.

Nothing is parsed while a run lasts, for client and engine share the machine's cores.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

from .artifacts import TARGET, WORDS
from .recording import to_deltas

TIMEOUT_S = 300  # no single request takes longer on a machine that can record at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `held_ms` and `held_where` tell the gateway to dawdle, `read_after_ms` the client itself.

    Requests with different `salt` share nothing in the prefix cache.
    """

    id: str
    prompt: str
    max_tokens: int
    due_us: int = 0
    role: str = "load"
    model: str = TARGET
    held_ms: int = 0
    held_where: str = ""
    read_after_ms: int = 0
    salt: str = ""
    parameters: dict = field(default_factory=dict)

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt.split())


def words(rng: random.Random, count: int) -> str:
    """A prompt of `count` tokens; two of them share no prefix, so nothing is found in the prefix cache by accident."""
    return " ".join(f"w{rng.randrange(1, WORDS)}" for _ in range(count))


def poisson(rng: random.Random, count: int, per_s: float) -> list[int]:
    """Due times in microseconds of an open-loop Poisson process."""
    times, now = [], 0.0
    for _ in range(count):
        now += rng.expovariate(per_s)
        times.append(round(now * 1e6))
    return times


async def run(url: str, requests: list[Request], *, serial: bool = False) -> tuple[int, list[dict]]:
    """Send all requests; their rows, with times in microseconds after `origin`, a reading of the monotonic clock in ns.

    Open loop: each request leaves when it is due, whatever became of the ones before. Serial: each waits for the last.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        origin_ns = time.monotonic_ns()
        if serial:
            raw = [await _send(session, url, request, origin_ns) for request in requests]
        else:
            raw = await asyncio.gather(*(_send(session, url, request, origin_ns) for request in requests))
    rows = [_row(request, *stamps) for request, stamps in zip(requests, raw, strict=True)]
    for row in rows if serial else ():
        row["due_us"] = row["sent_us"]  # it is due when the one before is answered
    return origin_ns, rows


async def stamps(gateway_url: str) -> dict[str, dict[str, int]]:
    """What the gateway stamped since it was last asked, per request."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{gateway_url}/stamps") as response:
        return await response.json()


async def _send(session, url: str, request: Request, origin_ns: int) -> tuple[int, int, list[tuple[int, bytes]]]:
    def now_us() -> int:
        return (time.monotonic_ns() - origin_ns) // 1000

    body = {
        "model": request.model,
        "prompt": request.prompt,
        "max_tokens": request.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.salt:
        body["cache_salt"] = request.salt
    headers = {"X-Request-Id": request.id}
    if request.held_ms:
        headers |= {"X-Hold-Ms": str(request.held_ms), "X-Hold-Where": request.held_where}
    await asyncio.sleep(max(0, request.due_us - now_us()) / 1e6)
    lines = []
    sent_us = now_us()
    async with session.post(f"{url}/v1/completions", json=body, headers=headers) as response:
        if response.status != 200:
            raise RuntimeError(f"request {request.id} was answered {response.status}: {(await response.text())[:500]}")
        if request.read_after_ms:
            await asyncio.sleep(request.read_after_ms / 1000)
        async for line in response.content:
            if line.startswith(b"data: "):
                lines.append((now_us(), line))
    return sent_us, now_us(), lines


def _row(request: Request, sent_us: int, end_us: int, lines: list[tuple[int, bytes]]) -> dict:
    times, counts, output, last = [], [], [], {}
    for at_us, line in lines:
        text = line.removeprefix(b"data: ").strip()
        if text == b"[DONE]":
            continue
        last = json.loads(text)
        if "error" in last:
            raise RuntimeError(f"request {request.id} failed: {last['error']}")
        made = last["choices"][0]["text"].split() if last["choices"] else []  # one word is one token
        if made:
            times.append(at_us)
            counts.append(len(made))
            output += [int(word[1:]) for word in made]
    row = {
        "kind": "request",
        "id": request.id,
        "role": request.role,
        "due_us": request.due_us,
        "sent_us": sent_us,
        "prompt_tokens": request.prompt_tokens,
        "max_tokens": request.max_tokens,
        "chunk_us": to_deltas(times),
        "chunk_tokens": counts,
        "end_us": end_us,
        "output": output,
    } | request.parameters
    return row | _engine_view(last)


def _engine_view(last: dict) -> dict:
    """What vLLM itself says of a request, in its last chunk; another engine says nothing."""
    view = {}
    if details := (last.get("usage") or {}).get("prompt_tokens_details"):
        view["cached_tokens"] = details.get("cached_tokens", 0)
    if metrics := last.get("metrics"):
        names = {"queue_us": "queue_time_ms", "prefill_us": "time_to_first_token_ms", "decode_us": "generation_time_ms"}
        view["engine"] = {ours: round(metrics[theirs] * 1000) for ours, theirs in names.items()}
        if rounds := metrics.get("speculative_decoding"):
            view |= {"accepted": rounds["per_step_accepted"], "drafted": rounds["per_step_drafted"]}
    return view
