"""A gateway in front of the engine that stamps each request four times, and dawdles where a header tells it to.

    python -m measure.gateway --port PORT --upstream URL

It holds a request back before the stamp `forwarded` ("gateway") or after it ("unstamped", as a hop without clocks
would). GET /stamps hands out the stamps so far, in nanoseconds of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import aiohttp
from aiohttp import web


class Gateway:
    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.stamps: dict[str, dict[str, int]] = {}

    async def session(self, _app: web.Application):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as self.client:
            yield

    async def forward(self, request: web.Request) -> web.StreamResponse:
        stamps = {"received": time.monotonic_ns()}
        body = await request.read()
        hold_s = int(request.headers.get("X-Hold-Ms", 0)) / 1000
        where = request.headers.get("X-Hold-Where")
        if where == "gateway":
            await asyncio.sleep(hold_s)
        stamps["forwarded"] = time.monotonic_ns()
        if where == "unstamped":
            await asyncio.sleep(hold_s)
        name = request.headers["X-Request-Id"]
        headers = {"Content-Type": "application/json", "X-Request-Id": name}
        async with self.client.post(self.upstream + request.path, data=body, headers=headers) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                stamps.setdefault("first_byte", time.monotonic_ns())
                await response.write(chunk)
        stamps["last_byte"] = time.monotonic_ns()
        self.stamps[name] = stamps
        await response.write_eof()
        return response

    async def hand_out(self, _request: web.Request) -> web.Response:
        stamps, self.stamps = self.stamps, {}
        return web.json_response(stamps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    options = parser.parse_args()
    gateway = Gateway(options.upstream)
    app = web.Application(client_max_size=2**26)
    app.cleanup_ctx.append(gateway.session)
    app.router.add_post("/v1/completions", gateway.forward)
    app.router.add_get("/stamps", gateway.hand_out)
    web.run_app(app, host="127.0.0.1", port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
