"""The engine's own environment in .measure/, apart from the book's: can this machine have it, and if so, make it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOME = ROOT / ".measure"
PYTHON = HOME / "venv" / "bin" / "python"
LOCK = Path(__file__).with_name("requirements.lock")
TORCH = "torch==2.13.0"
DISK_GIB = 8.0
MEMORY_GIB = 6.0
CORES = 2


def obstacles() -> list[str]:
    """What keeps this machine from recording, in words; empty if nothing does."""
    found = []
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return [f"the pinned engine runs on Linux on x86_64; this is {platform.system()} on {platform.machine()}"]
    if not (3, 11) <= sys.version_info < (3, 15):
        found.append(f"the engine needs Python 3.11 to 3.14, this is {platform.python_version()}: set PYTHON=...")
    cores = len(os.sched_getaffinity(0))
    if cores < CORES:
        found.append(f"engine and client need {CORES} cores; this process may use {cores}")
    memory = available_memory_bytes() / 2**30
    if memory < MEMORY_GIB:
        found.append(f"engine, cache and client need {MEMORY_GIB:.0f} GiB of memory; {memory:.1f} GiB are available")
    disk = shutil.disk_usage(ROOT).free / 2**30
    if disk < DISK_GIB and not PYTHON.exists():
        found.append(f"the environment needs {DISK_GIB:.0f} GiB of disk; {disk:.1f} GiB are free")
    return found


def available_memory_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemAvailable: this kernel is older than 3.14")


def ensure() -> None:
    """Make the environment unless it is there and complete."""
    ready = HOME / "venv" / ".ready"
    wanted = f"{TORCH}\n{LOCK.read_text(encoding='ascii')}"
    if ready.is_file() and ready.read_text(encoding="ascii") == wanted:
        return
    print("Setting up the engine in .measure/ (about 4 GB, a few minutes, once) ...", flush=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # PyTorch first and with what its own build needs; the rest without dependencies, for the engine's package asks for
    # a build of PyTorch that the package index does not carry
    for arguments in ([TORCH], ["--no-deps", "--requirement", str(LOCK)]):
        if subprocess.run([*pip, *arguments], check=False).returncode:
            sys.exit(
                "The engine could not be installed here; pip's message above says why. The book does not need it: "
                "the recordings in data/measured are complete."
            )
    ready.write_text(wanted, encoding="ascii")
