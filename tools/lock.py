"""Pin the whole tree of dependencies: resolve pyproject's extras in an empty environment and write down what came.

Run it with the oldest supported Python (Debian 12 has 3.11.2): what it resolves to, a newer one can install too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def freeze(python: str) -> list[str]:
    command = [python, "-m", "pip", "freeze", "--all", "--exclude", "pip", "--exclude", "calc"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def write(name: str, what: str, lines: list[str]) -> None:
    stray = [line for line in lines if "==" not in line]
    if stray:
        sys.exit(f"not a pinned release: {', '.join(stray)}")
    (ROOT / name).write_text(f"# {what}; written by make lock\n" + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(lines)} packages")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--upgrade-deps", folder], check=True)
        python = f"{folder}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"{ROOT}[book,chapters,test]"], check=True)
        core = freeze(python)
        write("requirements.lock", "What builds and tests the book", core)
        subprocess.run([*install, f"{ROOT}[lab]"], check=True)
        added = sorted(set(freeze(python)) - set(core))
        write("requirements-lab.lock", "What JupyterLab adds to requirements.lock", added)


if __name__ == "__main__":
    main()
