"""What a page costs a reader on a phone: Lighthouse's scores, weight, shift and blocking. Prints; asserts nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import statistics
import subprocess
import threading
from pathlib import Path

import browser
from serve import SITE, Handler, bind

RUNS = 3
BUDGET_KB = 250  # what a chapter may weigh before the reader touches anything
PAGES = (
    "book/start.html",
    "book/memory/kv_cache.html",
    "book/memory/capacity.html",
    "book/time/roofline.html",
    "book/service/latency_and_goodput.html",
    "book/worksheet.html",
    "book/drill.html",
    "book/reference/formulas.html",
    "book/reference/glossary.html",
    "book/reference/evidence.html",
    "book/reference/errata.html",
)
SCORES = ("performance", "accessibility", "best-practices", "seo")
AUDITS = ("total-byte-weight", "cumulative-layout-shift", "total-blocking-time")
LIGHTHOUSE = Path(__file__).parent / "lighthouse" / "node_modules" / "lighthouse" / "cli" / "index.js"
PACKED = {".woff2", ".png", ".zip", ".whl", ".gz"}


class Compressing(Handler):
    """The server as a host on the web would be: text is sent compressed and may be kept."""

    def log_message(self, *_: object) -> None:
        """Nothing: a browser asks for files that a site need not have."""

    def send_head(self) -> io.BufferedIOBase | None:
        path = Path(self.translate_path(self.path))
        if not path.is_file() or path.suffix in PACKED:
            return super().send_head()
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)


def lighthouse(address: str) -> dict:
    """One run on an emulated phone with Lighthouse's own slow network and slow processor.

    Scrollbars are hidden, as a phone hides them: with them a headless Chromium draws only once a second on many of its
    loads, of the lightest page too. A heavy page then loses two points to it.
    """
    node = os.environ["PLAYWRIGHT_NODEJS_PATH"]  # the environment's, as tools/browser.py sets it
    chrome = "--chrome-flags=--headless=new --no-sandbox --hide-scrollbars"
    flags = ["--quiet", "--output=json", chrome, "--no-enable-error-reporting"]
    environment = os.environ | {"CHROME_PATH": browser.find()}
    done = subprocess.run([node, LIGHTHOUSE, address, *flags], env=environment, check=True, capture_output=True)
    return json.loads(done.stdout)


def bench(pages: tuple[str, ...] = PAGES, runs: int = RUNS) -> None:
    """Print a line for each page: the median of some runs, and the weight as a share of the budget."""
    with bind(0, SITE, Compressing) as server:
        server.handle_error = lambda *_: None  # a browser that is closed hears no answer out
        threading.Thread(target=server.serve_forever, daemon=True).start()
        columns = f"{'kB':>5}{'of 250':>8}{'requests':>10}{'shift':>8}{'blocked':>10}"
        print(f"  {'':<40}{'scores':<20}{columns}")
        for page in pages:
            if not (SITE / page).is_file():
                continue
            done = [lighthouse(f"http://127.0.0.1:{server.server_port}/{page}") for _ in range(runs)]

            scores = [
                round(100 * statistics.median(one["categories"][name]["score"] for one in done)) for name in SCORES
            ]
            weight, shift, blocked = (
                statistics.median(one["audits"][name]["numericValue"] for one in done) for name in AUDITS
            )
            weight /= 1000
            requests = statistics.median(len(one["audits"]["network-requests"]["details"]["items"]) for one in done)
            print(
                f"  {page:<40}{' / '.join(map(str, scores)):<20}{weight:5.0f}{weight / BUDGET_KB:7.2f}×"
                f"{requests:10.0f}{shift:8.3f}{blocked:7.0f} ms",
                flush=True,
            )
        server.shutdown()


if __name__ == "__main__":
    bench()
