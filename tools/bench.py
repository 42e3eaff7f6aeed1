"""What the book costs on this machine: import, chapters, panels and pages in a browser. Prints; asserts nothing."""

from __future__ import annotations

import resource
import runpy
import statistics
import subprocess
import sys
from pathlib import Path

import bench_latency
import bench_pages
import bench_scheduling
import browser

ROOT = Path(__file__).parent.parent
REPEATS = 41


def cpu_s(code: str) -> float:
    """User and system time of one Python that runs `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    codes = {"python alone": "pass", "import calc": "import calc", "import calc.kv_cache": "import calc.kv_cache"}
    codes["a 70B model's cache"] = (
        "from calc import kv_cache, models; m = models.load('llama-3.1-70b'); a, n = m.kinds()[0];"
        "kv_cache.bytes_per_position(layers=n, kv_heads=a.kv_heads, head_dim=a.key_dim, element_bytes=2)"
    )
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(REPEATS):  # in turn, so that a slow moment falls on all alike
        for name, code in codes.items():
            times[name].append(cpu_s(code))
    base = statistics.median(times["python alone"])
    print(f"CPU time, median of {REPEATS} starts")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        more = 1000 * (median - base)
        print(f"  {name:<24}{1000 * median:7.1f} ms  {more:+7.1f} ms  {median / base:5.2f} × python alone")
    print("\nStreams of token times")
    bench_latency.bench()
    print("\nSimulated schedules")
    bench_scheduling.bench()
    if browser.find():
        print("\nPanels in a browser")
        runpy.run_path(str(ROOT / "book" / "live" / "bench.py"), run_name="__main__")
        print("\nPages on Lighthouse's phone: performance / accessibility / best practices / SEO")
        bench_pages.bench()
    else:
        print("No browser on this machine: neither panels nor pages are measured.")


if __name__ == "__main__":
    main()
