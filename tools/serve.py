"""Serve the built book on this machine alone: ``python tools/serve.py --port 8000``."""

from __future__ import annotations

import argparse
import functools
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).parent.parent / "_build" / "html"


class Handler(SimpleHTTPRequestHandler):
    """Python's own file server, with the types that the panels need whatever the system's table says."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".json": "application/json",
        ".wasm": "application/wasm",
        ".whl": "application/octet-stream",
        ".woff2": "font/woff2",
        ".webmanifest": "application/manifest+json",
    }

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a rebuilt page shows at once; unchanged files answer 304
        super().end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Errors alone are worth a line."""


def bind(port: int, site: Path = SITE, kind: type[Handler] = Handler) -> ThreadingHTTPServer:
    """Bind to 127.0.0.1 at `port`, or at a free port if that one is taken."""
    handler = functools.partial(kind, directory=str(site))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        print(f"Port {port} cannot be used ({error.strerror}); taking {server.server_port} instead.")
        return server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    if not (SITE / "index.html").is_file():
        print("There is no built book yet: run make book.", file=sys.stderr)
        return 1
    with bind(port) as server:
        print(f"The book is at http://127.0.0.1:{server.server_port}/  (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
